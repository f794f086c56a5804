package remote_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/namespace"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// controlServer is the program, built once a run.
func controlServer(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "remote-"); built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-o", built.dir, "github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-controlserver")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatalf("build the control server: %v", built.err)
	}
	return filepath.Join(built.dir, "flyfleet-controlserver")
}

// userland is what programs a machine has.
type userland string

const (
	// coreutils are this computer's own, lent by the runner.
	coreutils userland = "coreutils"
	// busybox is one static program and a link for each of its names.
	busybox userland = "busybox"
)

func (u userland) image(t testing.TB) v1.Image {
	t.Helper()
	server, err := os.ReadFile(controlServer(t))
	if err != nil {
		t.Fatal(err)
	}
	entries := []runnertest.Entry{
		runnertest.Dir("etc", 0o755),
		runnertest.File("etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\ntenant:x:10000:10000:tenant:/workspace:/bin/sh\n"),
		runnertest.File("etc/group", 0o644, "root:x:0:\ntenant:x:10000:\n"),
		runnertest.Dir("data", 0o755), runnertest.Dir("root", 0o700), runnertest.Dir("run", 0o755), runnertest.Dir("tmp", 0o1777),
		runnertest.Link("workspace", "/data/workspace"),
		runnertest.File(ociimage.ControlServerPath[1:], 0o755, string(server)),
	}
	if u == busybox {
		entries = append(entries, runnertest.Busybox(t)...)
	}
	return runnertest.Image(t, entries)
}

const (
	appName     = "tenant-a"
	machineName = "d8901234567890"
	scope       = "s/one"
)

// machine is a running machine with a real control server.
type machine struct {
	runner runner.Runner
	spec   runner.Spec
	boot   atomic.Pointer[runner.Instance] // its present life

	key   token.SigningKey
	boxes atomic.Int64
	small bool            // /small is there
	own   *remote.Sandbox // of the machine itself, for what the cases need
}

// boot starts a machine. Its /small is a file system of 16 MiB where this process may mount one.
func boot(t testing.TB, u userland) *machine {
	t.Helper()
	root, err := token.NewRoot("test-fleet")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{}
	if m.key, err = root.Delegate("rt-test", []string{"tenant-*"}, time.Hour, time.Now()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"machine", "data", "small"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mounts := []runner.Mount{{VolumeID: "data", VolumeDir: filepath.Join(dir, "data"), Path: "/data"}}
	if os.Geteuid() == 0 {
		small := filepath.Join(dir, "small")
		if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=16m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		mounts = append(mounts, runner.Mount{VolumeID: "small", VolumeDir: small, Path: "/small"})
	}
	r, err := namespace.New(t.Context(), runner.Config{
		StateDir: dir, CacheDir: filepath.Join(dir, "cache"), HostTools: u == coreutils, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { takeDown(t, r, dir) })
	image := u.image(t)
	digest := runnertest.Digest(t, image)
	m.runner, m.spec = r, runner.Spec{
		App: appName, MachineID: machineName, InstanceID: "i1", Network: "net", Region: "ams", MemoryMB: 512,
		PrivateIP: netip.MustParseAddr("fdaa::2"), Dir: filepath.Join(dir, "machine"), Fresh: true,
		ImageRef: "registry.example/tenant@" + digest, ImageDigest: digest, Image: image,
		Argv:   []string{ociimage.ControlServerPath, "serve"},
		Env:    []string{"FLYFLEET_TRUST=" + root.Trust(), "FLY_APP_NAME=" + appName, "FLY_MACHINE_ID=" + machineName, "FLYFLEET_GRACE=2s"},
		Mounts: mounts, WorkDir: "/",
	}
	m.start(t)
	t.Cleanup(m.kill(t))
	if m.small = len(mounts) > 1; m.small {
		m.root(t, "chown 10000:10000 /small")
	}
	m.serves(t)
	m.own = m.box(t, remote.Options{Dir: "/"})
	return m
}

func (m *machine) start(t testing.TB) {
	t.Helper()
	i, err := m.runner.Start(t.Context(), m.spec)
	if err != nil {
		t.Fatal(err)
	}
	m.boot.Store(&i)
}

func (m *machine) kill(t testing.TB) func() {
	return func() {
		i := *m.boot.Load()
		if err := i.Kill(); err != nil {
			t.Error(err)
		}
		i.Wait()
	}
}

// restart ends all processes at once and boots again on the same volumes.
func (m *machine) restart(t testing.TB) {
	t.Helper()
	m.kill(t)()
	m.spec.Fresh = false
	m.start(t)
	m.serves(t)
}

func (m *machine) Exec(ctx context.Context, r runner.ExecRequest) (runner.ExecResult, error) {
	return (*m.boot.Load()).Exec(ctx, r)
}

func (m *machine) Dial(ctx context.Context, port int) (net.Conn, error) {
	return (*m.boot.Load()).Dial(ctx, port)
}

func takeDown(t testing.TB, r runner.Runner, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.Cleanup(ctx, filepath.Join(dir, "machine")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"data", "cache"} {
		if err := r.RemoveVolume(ctx, filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// serves waits until the control server answers.
func (m *machine) serves(t testing.TB) {
	t.Helper()
	c, err := client.New(m.options())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	soon(t, "the control server answers", func() bool {
		_, err := c.Hello(t.Context())
		return err == nil
	})
}

// soon polls until something holds.
func soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// root runs a script in the machine as root, not through the control server.
func (m *machine) root(t testing.TB, script string) string {
	t.Helper()
	r, err := m.Exec(t.Context(), runner.ExecRequest{Argv: []string{"sh", "-c", script}, Timeout: 30 * time.Second})
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v, exit %d: %s%s", script, err, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

func (m *machine) options() client.Options { return m.optionsOf(scope) }

func (m *machine) optionsOf(scope string) client.Options {
	return client.Options{
		Address: "tenant-a.flycast:8080", Scope: scope,
		Dial:   func(ctx context.Context, _, _ string) (net.Conn, error) { return m.Dial(ctx, wire.ControlPort) },
		Tokens: client.SignWith(m.key, appName, machineName, "test", scope),
	}
}

// box is a sandbox of the machine, closed with the test.
func (m *machine) box(t testing.TB, o remote.Options) *remote.Sandbox {
	t.Helper()
	if o.Machine.Address == "" {
		o.Machine = m.options()
	}
	o.Wait = 20 * time.Second
	s, err := remote.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// fresh makes an empty directory of the exec user's.
func (m *machine) fresh(t testing.TB, below string) string {
	t.Helper()
	dir := below + "/case" + strconv.FormatInt(m.boxes.Add(1), 10)
	s := m.own
	if err := s.Mkdir(t.Context(), dir, sandbox.MkdirOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.Remove(ctx, dir, sandbox.RemoveOptions{Recursive: true, Force: true}); err != nil {
			m.root(t, "rm -rf "+dir)
		}
	})
	return dir
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}
