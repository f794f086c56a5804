package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

// attempt runs a script that is expected to fail in the machine, and says whether it did.
func attempt(t *testing.T, i runner.Instance, script string) (failed bool, output string) {
	t.Helper()
	r, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return r.Code != 0, string(r.Stdout) + string(r.Stderr)
}

// appStatus reads a field of the entrypoint's /proc status, as the machine sees it.
func appStatus(t *testing.T, i runner.Instance, field string) string {
	t.Helper()
	list, err := i.Ps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if strings.Contains(p.Command, runnertest.AppArg) {
			return runnertest.Shell(t, i, fmt.Sprintf("sed -n 's/^%s:[[:space:]]*//p' /proc/%d/status", field, p.PID))
		}
	}
	t.Fatalf("no app among %+v", list)
	return ""
}

func TestHostSeesOnlyUnprivilegedIds(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("serve", "[::]:8080")
	spec.User = "tenant"
	l.Serving(spec)
	list, err := procs.Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range list {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
				seen++
				if slices.Contains(strings.Fields(ids), "0") {
					t.Errorf("%q runs as %s", p.Command, ids)
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d of bubblewrap, init and entrypoint were seen: %+v", seen, list)
	}
}

func TestRealRootsFilesStayClosed(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("serve", "[::]:8080")
	mount := l.Volume("v")
	spec.Mounts = []runner.Mount{mount}
	i := l.Serving(spec)
	// The file is put where the machine can walk to it, so that its owner alone protects it.
	planted := filepath.Join(mount.VolumeDir, "of-the-host")
	if err := os.WriteFile(planted, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	failed, output := attempt(t, i, "cat /data/of-the-host")
	if os.Geteuid() == 0 && (!failed || strings.Contains(output, "secret")) {
		t.Errorf("the machine's root read a file of the host's root: %s", output)
	}
	if os.Geteuid() != 0 && failed {
		t.Errorf("an ordinary user's machine shares its id, yet: %s", output)
	}
	if failed, _ := attempt(t, i, "test -e /etc/shadow || test -e /home || test -e "+l.Dir); !failed {
		t.Error("the machine sees the host's files")
	}
}

func TestMachinesDoNotSeeEachOther(t *testing.T) {
	l := runnertest.NewLab(t, New)
	one, two := l.Spec("serve", "[::]:8080"), l.Spec("serve", "[::]:8080")
	one.Mounts, two.Mounts = []runner.Mount{l.Volume("one")}, []runner.Mount{l.Volume("two")}
	first, second := l.Serving(one), l.Serving(two)
	runnertest.Shell(t, first, "echo mine > /data/marker; echo mine > /marker; test -e /data/marker")
	if got := runnertest.Shell(t, second, "find / -name marker -not -path '/proc/*' -not -path '/usr/*' 2>/dev/null; true"); got != "" {
		t.Errorf("the other machine's files are seen: %s", got)
	}
	list, err := second.Ps(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	apps := slices.DeleteFunc(list, func(p runner.Process) bool { return !strings.Contains(p.Command, runnertest.AppArg) })
	if len(apps) != 1 {
		t.Errorf("the machine sees %d apps: %+v", len(apps), apps)
	}
}

func TestNetworksAreApart(t *testing.T) {
	l := runnertest.NewLab(t, New)
	one, two := l.Spec("serve", "[::]:8080"), l.Spec("serve", "[::]:8080")
	first, second := l.Serving(one), l.Serving(two)
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	go runnertest.Echo(host)
	connects := func(i runner.Instance, address string) bool {
		r, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{runnertest.AppPath, runnertest.AppArg, "connect", address}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Code == 0
	}
	own := netip.AddrPortFrom(one.PrivateIP, 8080).String()
	if !connects(first, own) || !connects(first, "127.0.0.1:8080") {
		t.Error("a machine does not reach itself")
	}
	if connects(second, own) {
		t.Errorf("another machine reaches %s", own)
	}
	if connects(first, host.Addr().String()) {
		t.Error("a machine reaches the host's loopback")
	}
	if got := runnertest.Shell(t, first, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"); got != "lo" {
		t.Errorf("the machine has the interfaces %q", got)
	}
	if got := runnertest.Shell(t, first, "grep fly-local-6pn /etc/hosts | cut -f1"); got != one.PrivateIP.String() {
		t.Errorf("fly-local-6pn is %q", got)
	}
}

func TestEntrypointRunsAsTheImagesUser(t *testing.T) {
	l := runnertest.NewLab(t, New)
	mapped := l.Runner.Level() == "namespace/mapped"
	for user, want := range map[string][2]string{
		"":             {"0\t0\t0\t0", ""},
		"tenant":       {"10000\t10000\t10000\t10000", "10001"},
		"10000:10001":  {"10000\t10000\t10000\t10000", ""},
		"12345":        {"12345\t12345\t12345\t12345", ""},
		"tenant:extra": {"10000\t10000\t10000\t10000", ""},
	} {
		spec := l.Spec("serve", "[::]:8080")
		spec.User = user
		i := l.Serving(spec)
		if !mapped {
			want = [2]string{"0\t0\t0\t0", appStatus(t, i, "Groups")}
		}
		if got := appStatus(t, i, "Uid"); got != want[0] {
			t.Errorf("user %q runs as %q", user, got)
		}
		if got := appStatus(t, i, "Groups"); got != want[1] {
			t.Errorf("user %q has the groups %q", user, got)
		}
		if got := appStatus(t, i, "CapEff"); mapped && user != "" && got != "0000000000000000" {
			t.Errorf("user %q has capabilities %s", user, got)
		}
	}
	spec := l.Spec("serve", "[::]:8080")
	spec.User = "nobody-knows"
	if _, err := l.Runner.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "nobody-knows") {
		t.Errorf("an unknown user gave %v", err)
	}
}

func TestConsoleCanBeOpenedAgainByTheImagesUser(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("exit", "0")
	spec.User = "tenant"
	spec.Argv = []string{"sh", "-c", "echo plain; echo again > /dev/stdout; echo error > /dev/stderr"}
	if exit := l.Boot(spec).Wait(); exit.Code != 0 {
		t.Errorf("ended with %+v", exit)
	}
	console, err := os.ReadFile(filepath.Join(spec.Dir, "console.log"))
	if err != nil || string(console) != "plain\nagain\nerror\n" {
		t.Errorf("the console is %q, %v", console, err)
	}
}

func TestOrphansAreReaped(t *testing.T) {
	l := runnertest.NewLab(t, New)
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	runnertest.Shell(t, i, "for n in 1 2 3 4 5 6 7 8; do (sh -c 'exit 0' &) ; done")
	runnertest.Eventually(t, "no ended process is left unreaped", func() bool {
		return runnertest.Shell(t, i, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true") == "0"
	})
}

func TestMachineCannotMountNorReplaceItsInit(t *testing.T) {
	l := runnertest.NewLab(t, New)
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	for _, script := range []string{
		"mount -t tmpfs none /tmp",
		"mount -o remount,rw,bind /fly/init",
		"umount /fly/init",
		"echo x > /fly/init",
		"chmod 777 /fly/init",
		"rm -f /fly/init",
		"unshare -Urm sh -c 'mount -o remount,rw,bind /fly/init && echo x > /fly/init'",
		"touch /usr/new",
		"echo 1 > /proc/sys/kernel/panic",
	} {
		if failed, output := attempt(t, i, script); !failed {
			t.Errorf("%q succeeded: %s", script, output)
		}
	}
}

func TestInheritedDescriptorsDoNotReachMachines(t *testing.T) {
	l := runnertest.NewLab(t, New)
	leak, err := os.Create(filepath.Join(l.Dir, "leak"))
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	// As a platform that was started by a careless program has it.
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	if got := runnertest.Shell(t, i, "ls -l /proc/self/fd /proc/[0-9]*/fd 2>/dev/null; true"); strings.Contains(got, "leak") {
		t.Errorf("the platform's descriptor is in the machine:\n%s", got)
	}
	if got := runnertest.Shell(t, i, "ls /proc/self/fd | wc -l"); got != "4" { // 0, 1, 2, and ls's own
		t.Errorf("a command begins with %s descriptors:\n%s", got, runnertest.Shell(t, i, "ls -l /proc/self/fd"))
	}
}

func TestRootIsFreshAtEachBoot(t *testing.T) {
	for name, copyRoots := range map[string]bool{"overlay": false, "copy": true} {
		t.Run(name, func(t *testing.T) {
			l := runnertest.NewLab(t, func(ctx context.Context, cfg runner.Config) (runner.Runner, error) {
				return NewWith(ctx, cfg, Options{CopyRoots: copyRoots})
			})
			spec := l.Spec("serve", "[::]:8080")
			i := l.Serving(spec)
			before := runnertest.Shell(t, i, "ls -lRn --time-style=+ /etc /opt /tmp; cat /etc/passwd")
			runnertest.Shell(t, i, "echo x > /new; rm -rf /opt; echo broken > /etc/passwd; mkdir -m 700 /tmp/closed; echo x > /tmp/closed/f; chown -R 10000:10000 /tmp/closed 2>/dev/null; true")
			if err := i.Kill(); err != nil {
				t.Fatal(err)
			}
			i.Wait()
			i = l.Serving(spec)
			if after := runnertest.Shell(t, i, "ls -lRn --time-style=+ /etc /opt /tmp; cat /etc/passwd"); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if failed, _ := attempt(t, i, "test -e /new"); !failed {
				t.Error("a file of the last boot is still there")
			}
		})
	}
}

func TestVolumeBelongsToTheMachinesRoot(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("serve", "[::]:8080")
	mount := l.Volume("old")
	// As another level, or real root, has left it.
	if err := os.WriteFile(filepath.Join(mount.VolumeDir, "old"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = []runner.Mount{mount, l.Volume("new")}
	spec.Mounts[1].Path = "/srv/new"
	i := l.Serving(spec)
	if got := runnertest.Shell(t, i, "cat /data/old; stat -c %u:%g:%a /srv/new"); got != "old0:0:755" {
		t.Errorf("got %q", got)
	}
	// The image's link leads onto the volume.
	runnertest.Shell(t, i, "mkdir /data/workspace; echo w > /workspace/f")
	if got := runnertest.Shell(t, i, "cat /data/workspace/f"); got != "w" {
		t.Errorf("got %q", got)
	}
	if l.Runner.Level() == "namespace/mapped" {
		// Removed at the end by a process that has no right over these ids, except in a namespace.
		runnertest.Shell(t, i, "mkdir -m 700 /data/theirs; echo x > /data/theirs/f; chown -R 10000:10000 /data/theirs")
	}
}

func TestMountPathWithALinkIsRefused(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("serve", "[::]:8080")
	spec.Image = runnertest.Image(t, runnertest.AppLayer(t), []runnertest.Entry{runnertest.Link("sneaky", "/oldroot/tmp")})
	spec.ImageDigest = runnertest.Digest(t, spec.Image)
	spec.Mounts = []runner.Mount{l.Volume("v")}
	spec.Mounts[0].Path = "/sneaky/x"
	if _, err := l.Runner.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("got %v", err)
	}
}

func TestEgressReachesTheNamedAddressOnly(t *testing.T) {
	var outside [2]net.Listener
	for n := range outside {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go runnertest.Echo(ln)
		outside[n] = ln
	}
	inside := []string{"127.0.0.1:9999", "[fdaa:0:9::3]:80"}
	l := runnertest.NewLab(t, func(ctx context.Context, cfg runner.Config) (runner.Runner, error) {
		cfg.Egress = []runner.Egress{
			{Inside: inside[0], Outside: outside[0].Addr().String()}, {Inside: inside[1], Outside: outside[0].Addr().String()},
		}
		return New(ctx, cfg)
	})
	i := l.Serving(l.Spec("serve", "[::]:8080"))
	for address, want := range map[string]int{inside[0]: 0, inside[1]: 0, outside[0].Addr().String(): 1, outside[1].Addr().String(): 1} {
		r, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{runnertest.AppPath, runnertest.AppArg, "connect", address}})
		if err != nil || r.Code != want {
			t.Errorf("%s: code %d, %v: %s", address, r.Code, err, r.Stderr)
		}
	}
}

func TestHostToolsAreLentOnlyWhereMissing(t *testing.T) {
	l := runnertest.NewLab(t, New)
	spec := l.Spec("serve", "[::]:8080")
	spec.Image = runnertest.Image(t, runnertest.AppLayer(t), []runnertest.Entry{
		runnertest.File("bin/sh", 0o755, "#!"+runnertest.AppPath+" "+runnertest.AppArg+" exit 9"), runnertest.File("usr/own", 0o644, ""),
	})
	spec.ImageDigest = runnertest.Digest(t, spec.Image)
	i := l.Serving(spec)
	if _, err := i.Exec(t.Context(), runner.ExecRequest{Argv: []string{"ls", "/"}}); err == nil {
		t.Error("an image with a shell of its own got the host's tools")
	}
	if !slices.ContainsFunc([]string{"sh", "cat", "ls", "tar"}, func(tool string) bool {
		_, err := os.Stat("/usr/bin/" + tool)
		return err == nil
	}) {
		t.Fatal("this computer has no tools to lend")
	}
	runnertest.Shell(t, l.Serving(l.Spec("serve", "[::]:8080")), "cat /etc/passwd | head -1; ls /; tar --version; /bin/sh -c true")
}

func TestUnavailableLevelSaysWhy(t *testing.T) {
	if os.Geteuid() != 0 {
		// An ordinary user has single-id everywhere.
		l := runnertest.NewLab(t, func(ctx context.Context, cfg runner.Config) (runner.Runner, error) {
			return NewWith(ctx, cfg, Options{Level: SingleID})
		})
		if got := l.Runner.Level(); got != "namespace/single-id" {
			t.Errorf("level %s", got)
		}
		l.Serving(l.Spec("serve", "[::]:8080"))
		return
	}
	_, err := NewWith(t.Context(), runner.Config{StateDir: t.TempDir(), CacheDir: t.TempDir()}, Options{Level: SingleID})
	if err == nil || !strings.Contains(err.Error(), "newuidmap") {
		t.Errorf("got %v", err)
	}
}

func TestMissingBubblewrapNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(t.Context(), runner.Config{StateDir: t.TempDir(), CacheDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "apt-get install bubblewrap") || !strings.Contains(err.Error(), "process runner") {
		t.Errorf("got %v", err)
	}
}

func TestCancelledBootLeavesNothing(t *testing.T) {
	l := runnertest.NewLab(t, New)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Runner.Start(ctx, l.Spec("serve", "[::]:8080")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
