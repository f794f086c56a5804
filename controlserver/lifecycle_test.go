//go:build linux

package controlserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestDrainEndsCommandsAndDeliversTheirOutput(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			m := machinetest.Start(t, machinetest.Options{Env: []string{"FLYFLEET_GRACE=1s"}})
			c := m.Client(machinetest.ClientOptions{})
			polite := begin(t, c, shell(`trap 'seq 1 50000; echo bye; exit 9' TERM; echo ready; while :; do sleep 0.1; done`))
			deaf := begin(t, c, shell(`trap '' TERM; echo ready; while :; do sleep 0.1; done`))
			for _, b := range []*begun{polite, deaf} {
				eventually(t, "the trap", func() bool { return listed(t, c, b.id).GetStdoutEnd() == 6 })
			}
			m.Signal(signal)
			got := polite.wait(t)
			if !strings.HasSuffix(got.stdout, "50000\nbye\n") || got.Exit.GetCode() != 9 || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING {
				t.Fatalf("got %d bytes, %v", len(got.stdout), got.Exit)
			}
			if got := deaf.wait(t); got.Exit.GetSignal() != int32(syscall.SIGKILL) || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING {
				t.Fatalf("got %v", got.Exit)
			}
			if err := m.Wait(); err != nil {
				t.Fatalf("the server ended with %v:\n%s", err, m.Log())
			}
			again := machinetest.Start(t, machinetest.Options{Data: m.Data, Root: &m.Root})
			var out bytes.Buffer
			kept, err := again.Client(machinetest.ClientOptions{}).Attach(limited(t), polite.id, client.Follow{}, client.Writers(&out, nil))
			if err != nil || kept.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING || out.String() != got.stdout {
				t.Fatalf("after the restart: %v, %d bytes, %v", kept.Exit, out.Len(), err)
			}
		})
	}
}

func TestStoppingMachineRefusesNewCommandsAsRetryable(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	deaf := begin(t, c, shell(`trap '' TERM; echo ready; while [ ! -e go ]; do sleep 0.05; done`))
	eventually(t, "the trap", func() bool { return listed(t, c, deaf.id).GetStdoutEnd() == 6 })
	m.Signal(syscall.SIGTERM)
	eventually(t, "the stop", func() bool {
		_, err := c.Run(limited(t), client.Command{Spec: shell("echo no >ran")}, client.Writers(nil, nil))
		refusal, ok := wire.AsError(err)
		return ok && refusal.Reason == wirev1.ErrorReason_ERROR_REASON_STOPPING && refusal.Retryable
	})
	if err := os.WriteFile(filepath.Join(m.Data, "workspace", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	deaf.wait(t)
	if err := m.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestStopLeavesNoProcessBehind(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	run(t, c, shell("setsid sh -c 'echo $$ >daemon; exec sleep 1000' >/dev/null 2>&1 </dev/null &"))
	daemon := waitForFile(t, filepath.Join(m.Data, "workspace", "daemon"))
	m.Signal(syscall.SIGTERM)
	if err := m.Wait(); err != nil {
		t.Fatal(err)
	}
	if alive(t, daemon) {
		t.Fatal("a daemon outlived the machine")
	}
}

// docker/sbx-releases#82, apple/container#1225, containerd/containerd#9979, moby/moby#29700,
// moby/moby#34683: nobody reaped the orphans of ended commands; BitterSecurity/Decepticon#340: who did took
// the status of the others with them.
func TestOrphansAreReapedAndCodesStayRight(t *testing.T) {
	for name, attr := range map[string]*syscall.SysProcAttr{"child of an init": nil, "PID 1": ownPIDs()} {
		t.Run(name, func(t *testing.T) {
			m, err := machinetest.Launch(t, machinetest.Options{Attr: attr, Env: []string{machinetest.ProcEnv + "=" + strconv.FormatBool(attr != nil)}})
			if errors.Is(err, syscall.EPERM) {
				t.Fatal("the kernel forbids user namespaces to this user; allow them: sysctl -w kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0")
			}
			if err != nil {
				t.Fatal(err)
			}
			c := m.Client(machinetest.ClientOptions{})
			if attr != nil && strings.TrimSpace(run(t, c, shell("echo $PPID")).stdout) != "1" {
				t.Fatal("the server is not PID 1")
			}
			short := run(t, c, shell("(sleep 1000 & sleep 0.2 &) >/dev/null 2>&1; for i in 1 2 3; do (sleep 0.1 &) >/dev/null 2>&1; done; exit 7"))
			if short.Exit.GetCode() != 7 {
				t.Fatalf("got %v", short.Exit)
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 25 {
						if got := run(t, c, shell("(sleep 0.01 &) >/dev/null 2>&1; exit 7")); got.Exit.GetCode() != 7 {
							t.Errorf("got %v", got.Exit)
						}
					}
				})
			}
			wg.Wait()
			eventually(t, "all orphans but the sleeping one to be reaped", func() bool {
				zombies, children := 0, 0
				for _, fields := range processTable(t) {
					if fields[1] == strconv.Itoa(m.PID()) {
						children++
						if fields[0] == "Z" {
							zombies++
						}
					}
				}
				return zombies == 0 && children == 2 // the server and the sleep
			})
		})
	}
}

// ownPIDs makes a process root and PID 1 of namespaces of its own.
func ownPIDs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// In a user namespace of one id there is nobody to switch to: the machine says so and works.
func TestSingleIdMachineSaysThatExecsAreNotSeparate(t *testing.T) {
	m, err := machinetest.Launch(t, machinetest.Options{Attr: ownPIDs(), Env: []string{machinetest.ProcEnv + "=true"}})
	if errors.Is(err, syscall.EPERM) {
		t.Fatal("the kernel forbids user namespaces to this user; allow them: sysctl -w kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0")
	}
	if err != nil {
		t.Fatal(err)
	}
	c := m.Client(machinetest.ClientOptions{})
	hello, err := c.Hello(limited(t))
	if err != nil || hello.GetExecUserSeparate() {
		t.Fatalf("got %v, %v", hello, err)
	}
	if got := run(t, c, shell("id -u")); got.stdout != "0\n" {
		t.Fatalf("got %q", got.stdout)
	}
}

func TestExecsRunUnprivilegedWhereIdsAllow(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	hello, err := c.Hello(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, c, shell(`id -u; id -g; grep NoNewPrivs /proc/self/status | tr -d '[:space:]'; echo; ps -o sid= -p $$ 2>/dev/null >/dev/null; echo "$USER"; [ -w . ] && echo writable; cat "$1" 2>&1 >/dev/null | grep -c denied`,
		filepath.Join(m.Data, "spool", "lock")))
	lines := strings.Split(got.stdout, "\n")
	want := []string{strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid()), "NoNewPrivs:1", hello.GetExecUser(), "writable", "0"}
	if os.Getuid() == 0 {
		want[0], want[1], want[5] = "10000", "10000", "1"
		if !hello.GetExecUserSeparate() || hello.GetExecUser() != "tenant" {
			t.Fatalf("got %v", hello)
		}
	} else if hello.GetExecUserSeparate() {
		t.Fatalf("got %v", hello)
	}
	for i, w := range want {
		if lines[i] != w {
			t.Fatalf("got %q, want %q", lines, want)
		}
	}
}

func TestHelloTellsTheMachineAndOneEpochALife(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	first, err := c.Hello(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	if first.GetApp() != machinetest.App || first.GetMachine() != machinetest.ID || first.GetEpoch() == "" || first.GetWireVersion() != 1 {
		t.Fatalf("got %v", first)
	}
	again, err := c.Hello(limited(t))
	if err != nil || again.GetEpoch() != first.GetEpoch() {
		t.Fatalf("got %v, %v", again, err)
	}
	m.Signal(syscall.SIGTERM)
	if err := m.Wait(); err != nil {
		t.Fatal(err)
	}
	restarted, err := machinetest.Start(t, machinetest.Options{Data: m.Data, Root: &m.Root}).Client(machinetest.ClientOptions{}).Hello(limited(t))
	if err != nil || restarted.GetEpoch() == first.GetEpoch() {
		t.Fatalf("got %v, %v", restarted, err)
	}
}

func ask(t *testing.T, m *machinetest.Machine, q probe.Question) probe.Answer {
	t.Helper()
	answer, err := probe.Ask(limited(t), m.Run, q)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestProbeTellsQuiescesAndResumes(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	if a := ask(t, m, probe.Question{}); a.State != "serving" || a.Running != 0 || a.Quiesce != "" || a.QuiescedUntil != "" || a.Spool != "durable" || a.Wire.Max != 1 {
		t.Fatalf("got %+v", a)
	}
	exec := begin(t, c, shell("while [ ! -e go ]; do sleep 0.05; done"))
	if a := ask(t, m, probe.Question{QuiesceMS: 60000}); a.State != "serving" || a.Running != 1 || a.Quiesce != "busy" {
		t.Fatalf("got %+v", a)
	}
	finished := run(t, c, shell("touch go"))
	exec.wait(t)
	a := ask(t, m, probe.Question{QuiesceMS: 60000})
	until, err := time.Parse(time.RFC3339Nano, a.QuiescedUntil)
	if a.State != "quiesced" || a.Quiesce != "closed" || err != nil || !until.After(time.Now()) {
		t.Fatalf("got %+v, %v", a, err)
	}
	_, err = c.Run(limited(t), client.Command{Spec: shell("echo no")}, client.Writers(nil, nil))
	if refusal, ok := wire.AsError(err); !ok || refusal.Reason != wirev1.ErrorReason_ERROR_REASON_QUIESCED || !refusal.Retryable || refusal.RetryAfter <= 0 {
		t.Fatalf("a start while quiesced: %v", err)
	}
	if _, err := c.Attach(limited(t), finished.ID, client.Follow{}, client.Writers(nil, nil)); err != nil {
		t.Fatalf("an attach while quiesced: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Run(limited(t), client.Command{Spec: shell("echo later"), Follow: client.Follow{Wait: time.Minute}}, client.Writers(nil, nil))
		waiting <- err
	}()
	if a := ask(t, m, probe.Question{Resume: true}); a.State != "serving" || a.Quiesce != "resumed" {
		t.Fatalf("got %+v", a)
	}
	if err := <-waiting; err != nil {
		t.Fatalf("a start that waits: %v", err)
	}
}

func TestQuiesceEndsByItself(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	if a := ask(t, m, probe.Question{QuiesceMS: 300}); a.Quiesce != "closed" {
		t.Fatalf("got %+v", a)
	}
	_, err := m.Client(machinetest.ClientOptions{}).Run(limited(t), client.Command{Spec: shell("true"), Follow: client.Follow{Wait: time.Minute}}, client.Writers(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingStartsBetweenClosedAndTheEndOfTheQuiesce(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	var stop atomic.Bool
	var started, refused atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				_, err := c.Run(limited(t), client.Command{Spec: shell(`echo x >>"log.$$"`)}, client.Writers(nil, nil))
				switch {
				case err == nil:
					started.Add(1)
				case wire.ReasonOf(err) == wirev1.ErrorReason_ERROR_REASON_QUIESCED:
					refused.Add(1)
				default:
					t.Errorf("run: %v", err)
					return
				}
			}
		})
	}
	traces := func() int {
		files, err := filepath.Glob(filepath.Join(m.Data, "workspace", "log.*"))
		if err != nil {
			t.Error(err)
		}
		return len(files)
	}
	for round := range 10 {
		// Asked until the answer falls into a moment in which nothing runs.
		eventually(t, fmt.Sprintf("a quiet moment in round %d", round), func() bool {
			return ask(t, m, probe.Question{QuiesceMS: 60000}).Quiesce == "closed"
		})
		before, turned := traces(), refused.Load()
		eventually(t, "starts that are refused", func() bool { return refused.Load() > turned+20 })
		if a := ask(t, m, probe.Question{}); a.Running != 0 || a.State != "quiesced" {
			t.Fatalf("round %d: %+v", round, a)
		}
		if after := traces(); after != before {
			t.Fatalf("round %d: %d commands ran behind the closed door", round, after-before)
		}
		have := started.Load()
		ask(t, m, probe.Question{Resume: true})
		eventually(t, "starts after the resume", func() bool { return started.Load() > have })
	}
	stop.Store(true)
	wg.Wait()
}

func TestProbeOfADeadServerSaysSo(t *testing.T) {
	_, err := probe.Ask(limited(t), t.TempDir(), probe.Question{})
	if err == nil || !strings.Contains(err.Error(), "no control server answers") {
		t.Fatalf("got %v", err)
	}
}

// What the server does to its own threads, to spend less on waking, is not passed on.
func TestCommandsWakeOnTime(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	got := run(t, m.Client(machinetest.ClientOptions{}), shell("cat /proc/self/timerslack_ns"))
	if got.stdout != "50000\n" {
		t.Fatalf("a command's sleeps may be late by %q ns, not by the kernel's usual 50000", got.stdout)
	}
}

// Keeper and server are ahead of commands for a processor, where they may; commands are where they would be without them.
func TestCommandsAreWhereCommandsBelong(t *testing.T) {
	flipped, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := machinetest.Start(t, machinetest.Options{})
	// The shell may be quicker than the keeper, for a moment.
	got := run(t, m.Client(machinetest.ClientOptions{}), shell(
		`for i in $(seq 100); do n=$(cut -d' ' -f19 /proc/$$/stat); [ "$n" != '`+strconv.Itoa(20-flipped)+`' ] || break; done; echo "$n"`))
	if got.stdout != strconv.Itoa(20-flipped)+"\n" {
		t.Fatalf("a command runs at nice %q, its machine's other processes at %d", got.stdout, 20-flipped)
	}
}

func TestServerIsAheadOfCommandsWhereItMay(t *testing.T) {
	flipped, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := 20 - flipped
	if ahead := max(want-10, -20); mayRunAt(t, ahead, want) {
		want = ahead
	}
	m := machinetest.Start(t, machinetest.Options{})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.ServerPID()))
	if err != nil {
		t.Fatal(err)
	}
	// Field 19 is the nice value (proc_pid_stat(5)); the second, which may hold spaces, ends with the last parenthesis.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if got := fields[19-3]; got != strconv.Itoa(want) {
		t.Fatalf("the server runs at nice %s, want %d, of %d usual", got, want, 20-flipped)
	}
}

// mayRunAt says whether processes of this user and with these capabilities may take a nice value, by a thread that tries.
func mayRunAt(t *testing.T, nice, usual int) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return false
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, usual); err != nil {
		t.Fatal(err)
	}
	return true
}
