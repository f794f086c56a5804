//go:build linux

package controlserver_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func piped(spec *wirev1.ExecSpec) *wirev1.ExecSpec {
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	return spec
}

func write(t *testing.T, c *client.Client, id string, offset int, data string, eof bool) (*wirev1.WriteStdinResponse, error) {
	t.Helper()
	answer, err := c.RPC().WriteStdin(limited(t), connect.NewRequest(&wirev1.WriteStdinRequest{
		ExecId: id, Scope: machinetest.Scope, Offset: uint64(offset), Data: []byte(data), Eof: eof,
	}))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func wrote(t *testing.T, c *client.Client, id string, offset int, data string, eof bool, accepted int) {
	t.Helper()
	answer, err := write(t, c, id, offset, data, eof)
	if err != nil || int(answer.GetAcceptedTo()) != accepted {
		t.Fatalf("write at %d: %v, %v, want %d accepted", offset, answer, err, accepted)
	}
}

func TestRepeatedStdinIsTakenOnce(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	exec := begin(t, c, piped(shell("cat")))
	wrote(t, c, exec.id, 0, "hello ", false, 6)
	wrote(t, c, exec.id, 0, "hello ", false, 6)
	wrote(t, c, exec.id, 3, "lo world", false, 11)
	wrote(t, c, exec.id, 0, "hel", false, 11)
	if _, err := write(t, c, exec.id, 12, "!", false); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
		t.Fatalf("a hole in stdin: %v", err)
	}
	wrote(t, c, exec.id, 11, "\n", true, 12)
	answer, err := write(t, c, exec.id, 11, "\n", true)
	if err != nil || !answer.GetClosed() {
		t.Fatalf("the end repeated: %v, %v", answer, err)
	}
	if got := exec.wait(t); got.stdout != "hello world\n" || got.Exit.GetCode() != 0 {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

// superradcompany/microsandbox#1549: a stdin that is never closed kept the command from ending.
func TestOpenStdinDoesNotKeepACommandAlive(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, piped(shell("echo hi"))); got.stdout != "hi\n" {
		t.Fatalf("got %q", got.stdout)
	}
	limited := piped(shell("cat"))
	limited.WallTimeoutMs = 300
	if got := run(t, c, limited); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %v", got.Exit)
	}
}

// yegor256/jaxec#168: several MB of stdin into cat met its full stdout. And nothing of it is lost, nor
// comes twice, when servers die under it.
func TestMegabytesThroughCatAcrossKills(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	var content bytes.Buffer
	for i := 0; content.Len() < 24<<20; i++ {
		fmt.Fprintf(&content, "line %d of the content\n", i)
	}
	sum := sha256.Sum256(content.Bytes())
	spec := shell("cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: uint64(content.Len()), Sha256: sum[:]}
	// A kill for every MiB that arrived: kills by the clock would leave a busy computer no time between two.
	got := sha256.New()
	arrived, kills := 0, 0
	killing := writerFunc(func(data []byte) (int, error) {
		if arrived += len(data); arrived>>20 > kills {
			kills++
			m.KillServer()
		}
		return got.Write(data)
	})
	result, err := c.Run(limited(t), client.Command{
		Spec: spec, Follow: client.Follow{Patience: time.Minute, Stdin: bytes.NewReader(content.Bytes())},
	}, client.Writers(killing, nil))
	if kills < 10 {
		t.Errorf("only %d kills", kills)
	}
	if err != nil || result.Exit.GetCode() != 0 || result.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_EXITED || !bytes.Equal(got.Sum(nil), sum[:]) {
		t.Fatalf("got %v, %v, %d of %d bytes, or others", result.Exit, err, result.Exit.GetStdoutEnd(), content.Len())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

func TestStdinThatIsNotWhatWasPromisedEndsTheCommandBeforeItsEnd(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	sum := sha256.Sum256([]byte("promised"))
	for name, data := range map[string]string{"short": "promise", "other": "promiseD"} {
		t.Run(name, func(t *testing.T) {
			spec := shell(`cat >"got-$1" && echo whole >"done-$1"`, name)
			spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: 8, Sha256: sum[:]}
			exec := begin(t, c, spec)
			if _, err := write(t, c, exec.id, 0, data, true); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
				t.Fatalf("got %v", err)
			}
			if got := exec.wait(t); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_STDIN_MISMATCH || got.Exit.GetSignal() != 9 {
				t.Fatalf("got %v", got.Exit)
			}
			if got := run(t, c, shell(`cat "done-$1"`, name)); got.stdout != "" {
				t.Fatal("the command took a part for the whole")
			}
		})
	}
	spec := shell("cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: 8, Sha256: sum[:]}
	exec := begin(t, c, spec)
	if _, err := write(t, c, exec.id, 0, "promised and more", false); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
		t.Fatalf("more than promised: %v", err)
	}
	wrote(t, c, exec.id, 0, "promised", true, 8)
	if got := exec.wait(t); got.stdout != "promised" || got.Exit.GetCode() != 0 {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

func TestStdinOfACommandThatReadsNoMoreIsClosed(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	exec := begin(t, c, piped(shell("exec <&-; echo closed; while [ ! -e go ]; do sleep 0.05; done")))
	eventually(t, "the close", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == 7 })
	eventually(t, "the broken pipe to show", func() bool {
		answer, err := write(t, c, exec.id, 0, strings.Repeat("x", 1<<20), false)
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetClosed()
	})
	run(t, c, shell("touch go"))
	exec.wait(t)
	if answer, err := write(t, c, exec.id, 0, "late", true); err != nil || !answer.GetClosed() {
		t.Fatalf("after the end: %v, %v", answer, err)
	}
}

func terminal(spec *wirev1.ExecSpec) *wirev1.ExecSpec {
	spec.Pty = &wirev1.Pty{Cols: 91, Rows: 17, Term: "vt220"}
	return piped(spec)
}

// cri-o/cri-o#8483, open-webui/open-terminal#145: the last output of a terminal was lost at its exit.
func TestTerminalOutputArrivesToTheLastByte(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	for range 20 {
		spec := shell("echo mytext; seq 1 2000; printf end")
		spec.Pty = &wirev1.Pty{Cols: 80, Rows: 24}
		got := run(t, c, spec)
		if !strings.HasPrefix(got.stdout, "mytext\r\n1\r\n") || !strings.HasSuffix(got.stdout, "\r\n2000\r\nend") {
			t.Fatalf("got %d bytes, ending in %q", len(got.stdout), got.stdout[max(0, len(got.stdout)-30):])
		}
	}
}

func TestTerminalIsATerminalOfItsSize(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	exec := begin(t, c, terminal(shell(`[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && echo "$TERM"; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.05; done`)))
	eventually(t, "the trap", func() bool { return strings.Contains(spooled(t, c, exec.id), "ready") })
	if _, err := c.RPC().Resize(limited(t), connect.NewRequest(&wirev1.ResizeRequest{ExecId: exec.id, Scope: machinetest.Scope, Cols: 120, Rows: 40})); err != nil {
		t.Fatal(err)
	}
	if got := exec.wait(t); got.stdout != "17 91\r\nvt220\r\nready\r\n40 120\r\n" || got.Exit.GetCode() != 4 {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

// spooled is an exec's stdout so far.
func spooled(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	var b bytes.Buffer
	stream, err := c.RPC().Attach(limited(t), connect.NewRequest(&wirev1.AttachRequest{ExecId: id, Scope: machinetest.Scope}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		b.Write(stream.Msg().GetChunk().GetData())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// containerd/containerd#8856: after a restart of the daemon a terminal's input reached nobody.
func TestTypedInputReachesTheTerminal(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	exec := begin(t, c, terminal(shell(`stty -echo; echo ready; read a; echo "got $a"; cat; trap 'echo interrupted; exit 5' INT; echo again; while :; do sleep 0.05; done`)))
	eventually(t, "the prompt", func() bool { return strings.Contains(spooled(t, c, exec.id), "ready") })
	wrote(t, c, exec.id, 0, "one\n", false, 4)
	eventually(t, "the first line", func() bool { return strings.Contains(spooled(t, c, exec.id), "got one") })
	was := m.ServerPID()
	m.KillServer()
	eventually(t, "the next server", func() bool { return m.ServerPID() != was })
	// Ctrl-D ends cat, Ctrl-C interrupts the rest.
	wrote(t, c, exec.id, 4, "two\n\x04", false, 9)
	eventually(t, "the rest", func() bool { return strings.Contains(spooled(t, c, exec.id), "again") })
	wrote(t, c, exec.id, 9, "\x03", false, 10)
	if got := exec.wait(t); got.stdout != "ready\r\ngot one\r\ntwo\r\nagain\r\ninterrupted\r\n" || got.Exit.GetCode() != 5 {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

func TestEndOfStdinIsTheTerminalsEndOfFile(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	exec := begin(t, c, terminal(shell("stty -echo; echo ready; cat; echo over")))
	eventually(t, "the prompt", func() bool { return strings.Contains(spooled(t, c, exec.id), "ready") })
	wrote(t, c, exec.id, 0, "line\n", true, 5)
	if got := exec.wait(t); got.stdout != "ready\r\nline\r\nover\r\n" {
		t.Fatalf("got %q", got.stdout)
	}
}

func TestLongTerminalOutputAcrossKills(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	hello, err := c.Hello(limited(t))
	if err != nil || !hello.GetPtyDurable() {
		t.Fatalf("this kernel does not splice terminals: %v, %v", hello, err)
	}
	const lines = 300000
	spec := shell("stty -opost; seq 1 $1", fmt.Sprint(lines))
	spec.Pty = &wirev1.Pty{Cols: 80, Rows: 24}
	sink := &hashSink{sum: sha256.New(), kill: func(uint64) { m.KillServer() }, every: 256 << 10}
	got, err := c.Run(limited(t), client.Command{Spec: spec, Follow: client.Follow{Patience: time.Minute}}, sink)
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.New()
	for i := 1; i <= lines; i++ {
		fmt.Fprintln(want, i)
	}
	if !bytes.Equal(sink.sum.Sum(nil), want.Sum(nil)) || sink.kills < 3 {
		t.Fatalf("%d bytes, %d kills, or other bytes", got.Exit.GetStdoutEnd(), sink.kills)
	}
}

// e2b-dev/E2B#1031, daytonaio/daytona#2602, daytonaio/daytona#4147: the time limit ended the shell, not what it had started.
func TestWallLimitEndsTheWholeTree(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	spec := shell("echo $$ >pid; (sleep 1000; echo late) & sleep 1000; echo hello")
	spec.WallTimeoutMs = 500
	got := run(t, c, spec)
	if got.stdout != "" || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT || got.Exit.GetSignal() != int32(syscall.SIGTERM) {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
	pid := waitForFile(t, filepath.Join(m.Data, "workspace", "pid"))
	eventually(t, "the tree to be gone", func() bool { return len(groupOf(t, pid)) == 0 })
}

func TestCommandDeafToTermIsKilledAfterItsGrace(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell("trap 'echo deaf' TERM; while :; do sleep 0.05; done")
	spec.WallTimeoutMs, spec.TermGraceMs = 300, 300
	if got := run(t, c, spec); got.stdout != "deaf\n" || got.Exit.GetSignal() != 9 || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

func TestHoldPausesTheWallLimitUntilItsEnd(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	hold := func(id, key string, ttl time.Duration) bool {
		t.Helper()
		answer, err := c.RPC().Hold(limited(t), connect.NewRequest(&wirev1.HoldRequest{ExecId: id, Scope: machinetest.Scope, Key: key, TtlMs: ttl.Milliseconds()}))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Msg.GetHeld()
	}
	spec := shell("while [ ! -e go ]; do sleep 0.05; done; echo lived")
	spec.WallTimeoutMs = 1500
	held := begin(t, c, spec)
	if !hold(held.id, "a", time.Hour) || !hold(held.id, "b", time.Hour) {
		t.Fatal("not held")
	}
	ended := shell("exec sleep 1000")
	ended.WallTimeoutMs = 1500
	other := begin(t, c, ended)
	hold(other.id, "a", 100*time.Millisecond)
	was := m.ServerPID()
	m.KillServer()
	eventually(t, "the next server", func() bool { return m.ServerPID() != was })
	// The other's hold ended by itself, so its limit comes; by then the held one is past its own.
	if got := other.wait(t); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %v", got.Exit)
	}
	run(t, c, shell("touch go"))
	if got := held.wait(t); got.stdout != "lived\n" {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
	spec = shell("exec sleep 1000")
	spec.WallTimeoutMs = 300
	freed := begin(t, c, spec)
	hold(freed.id, "a", time.Hour)
	hold(freed.id, "a", 0)
	if got := freed.wait(t); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %v", got.Exit)
	}
}

func TestUnattendedCommandEndsOnlyWithoutAClient(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	spec := shell("while [ ! -e go ]; do sleep 0.05; done; echo lived")
	spec.UnattendedTimeoutMs = 1000
	attended := begin(t, c, spec)
	left := begin(t, m.Client(machinetest.ClientOptions{}), func() *wirev1.ExecSpec {
		s := piped(shell("cat"))
		s.UnattendedTimeoutMs = 1000
		return s
	}())
	left.cancel()
	<-left.done
	eventually(t, "the command nobody follows to end", func() bool {
		return listed(t, c, left.id).GetExit().GetCause() == wirev1.ExitCause_EXIT_CAUSE_UNATTENDED
	})
	run(t, c, shell("touch go"))
	if got := attended.wait(t); got.stdout != "lived\n" {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

// brightwave-inc/tidebreak#3338: a cap cut the end off, or the other stream, or the code.
func TestCapKeepsTheTailAndTellsTheGap(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell(`echo start >&2; yes 0123456789abcde | head -c 20000000; echo end; echo end >&2; while [ ! -e go ]; do sleep 0.05; done; exit 3`)
	spec.StdoutCapBytes = 2 << 20
	exec := begin(t, c, spec)
	eventually(t, "the output", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == 20000004 })
	var out, errs bytes.Buffer
	run(t, c, shell("touch go"))
	got, err := c.Attach(limited(t), exec.id, client.Follow{}, client.Writers(&out, &errs))
	if err != nil || got.Exit.GetCode() != 3 || errs.String() != "start\nend\n" {
		t.Fatalf("got %v, %v, %q", got.Exit, err, errs.String())
	}
	if len(got.Gaps) != 1 || got.Gaps[0].GetFrom() != 0 || got.Gaps[0].GetReason() != wirev1.GapReason_GAP_REASON_CAP || out.Len() < 2<<20 || out.Len() > 4<<20 ||
		got.Gaps[0].GetTo()+uint64(out.Len()) != 20000004 || !strings.HasSuffix(out.String(), "0123456789abcde\nend\n") {
		t.Fatalf("got %v and %d bytes, ending in %q", got.Gaps, out.Len(), out.String()[max(0, out.Len()-30):])
	}
	want := strings.Repeat("0123456789abcde\n", 2)[got.Gaps[0].GetTo()%16:][:16]
	if !strings.HasPrefix(out.String(), want) {
		t.Fatalf("after the gap comes %q, want %q", out.String()[:16], want)
	}
}

func TestCapThatStopsStoringKeepsTheHeadAcrossAKill(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	spec := shell(`seq 1 400000; while [ ! -e go ]; do sleep 0.05; done; echo more; exit 3`)
	spec.StdoutCapBytes, spec.CapPolicy = 100000, wirev1.CapPolicy_CAP_POLICY_STOP_STORING
	exec := begin(t, c, spec)
	const end = 2688895
	eventually(t, "the output", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == end })
	was := m.ServerPID()
	m.KillServer()
	eventually(t, "the next server", func() bool { return m.ServerPID() != was })
	run(t, c, shell("touch go"))
	exec.wait(t)
	var out bytes.Buffer
	got, err := c.Attach(limited(t), exec.id, client.Follow{}, client.Writers(&out, nil))
	if err != nil || got.Exit.GetCode() != 3 || got.Exit.GetStdoutEnd() != end+5 || out.Len() != 100000 || !strings.HasPrefix(out.String(), "1\n2\n3\n") {
		t.Fatalf("got %v, %v, %d bytes", got.Exit, err, out.Len())
	}
	if len(got.Gaps) != 1 || got.Gaps[0].GetFrom() != 100000 || got.Gaps[0].GetTo() != end+5 {
		t.Fatalf("got %v", got.Gaps)
	}
}

func TestCapThatKillsEndsTheCommand(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell("exec yes")
	spec.StdoutCapBytes, spec.CapPolicy = 100000, wirev1.CapPolicy_CAP_POLICY_KILL
	got := run(t, c, spec)
	if got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_CAP || len(got.stdout) != 100000 || len(got.Gaps) != 1 {
		t.Fatalf("got %v, %d bytes, %v", got.Exit, len(got.stdout), got.Gaps)
	}
}

func TestForgottenExecKeepsItsResultAndNeverRunsAgain(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	forget := func(id string) (bool, error) {
		answer, err := c.RPC().Forget(limited(t), connect.NewRequest(&wirev1.ForgetRequest{ExecId: id, Scope: machinetest.Scope}))
		if err != nil {
			return false, err
		}
		return answer.Msg.GetForgotten(), nil
	}
	spec := shell("echo ran >>count; echo output; exit 5")
	first := run(t, c, spec)
	if ok, err := forget(first.ID); !ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	if ok, err := forget(first.ID); ok || err != nil {
		t.Fatalf("again: %v, %v", ok, err)
	}
	if ok, err := forget(newID(t)); ok || err != nil {
		t.Fatalf("an unknown one: %v, %v", ok, err)
	}
	// Its life may not be over yet, for all that its end was told.
	eventually(t, "the files to be collected", func() bool {
		left, err := filepath.Glob(filepath.Join(m.Data, "spool", "execs", "*", "out"))
		return err == nil && len(left) == 0
	})
	check := func() {
		t.Helper()
		var out bytes.Buffer
		got, err := c.Run(limited(t), client.Command{ID: first.ID, Spec: spec}, client.Writers(&out, nil))
		if err != nil || got.Exit.GetCode() != 5 || out.Len() != 0 || len(got.Gaps) != 1 || got.Gaps[0].GetReason() != wirev1.GapReason_GAP_REASON_COLLECTED || got.Gaps[0].GetTo() != 7 {
			t.Fatalf("the same start: %v, %v, %q, %v", got.Exit, got.Gaps, out.String(), err)
		}
		if _, err := c.Run(limited(t), client.Command{ID: first.ID, Spec: shell("echo other")}, client.Writers(nil, nil)); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_CONFLICT {
			t.Fatalf("another start: %v", err)
		}
		if got := run(t, c, shell("cat count")); got.stdout != "ran\n" {
			t.Fatalf("ran %q", got.stdout)
		}
	}
	check()
	m.KillServer()
	check()
	running := begin(t, c, shell("exec sleep 1000"))
	if _, err := forget(running.id); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
		t.Fatalf("a running one: %v", err)
	}
	if _, err := c.Signal(limited(t), running.id, 9, wirev1.SignalTarget_SIGNAL_TARGET_GROUP); err != nil {
		t.Fatal(err)
	}
	running.wait(t)
}

func TestForgottenExecWithOrphansLetsThemWriteOn(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	got := run(t, c, shell(`(i=0; while [ ! -e go ]; do echo line $i; i=$((i+1)); done; echo alive >survived) & echo early`))
	if _, err := c.RPC().Forget(limited(t), connect.NewRequest(&wirev1.ForgetRequest{ExecId: got.ID, Scope: machinetest.Scope})); err != nil {
		t.Fatal(err)
	}
	// Its output is gone at once, though the orphan keeps its life from being over.
	var out bytes.Buffer
	again, err := c.Attach(limited(t), got.ID, client.Follow{}, client.Writers(&out, nil))
	if err != nil || out.Len() > 0 || len(again.Gaps) != 1 || again.Gaps[0].GetReason() != wirev1.GapReason_GAP_REASON_COLLECTED {
		t.Fatalf("a forgotten exec: %v, %d bytes, %v", again.Gaps, out.Len(), err)
	}
	m.KillServer()
	run(t, c, shell("touch go"))
	eventually(t, "the orphan to write on", func() bool { return run(t, c, shell("cat survived 2>/dev/null")).stdout == "alive\n" })
	eventually(t, "the files to be collected", func() bool {
		left, err := filepath.Glob(filepath.Join(m.Data, "spool", "execs", got.ID))
		return err == nil && len(left) == 0
	})
}

func TestForbiddenIdNeverStarts(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	forbid := func(id string) (state wirev1.ExecState) {
		t.Helper()
		eventually(t, "an answer", func() bool {
			answer, err := c.RPC().Forbid(limited(t), connect.NewRequest(&wirev1.ForbidRequest{ExecId: id, Scope: machinetest.Scope}))
			if _, refused := wire.AsError(err); refused {
				t.Fatal(err)
			}
			if err == nil {
				state = answer.Msg.GetState()
			}
			return err == nil
		})
		return state
	}
	id := newID(t)
	for range 2 {
		if state := forbid(id); state != wirev1.ExecState_EXEC_STATE_FORBIDDEN {
			t.Fatalf("got %v", state)
		}
		_, err := c.Run(limited(t), client.Command{ID: id, Spec: shell("echo no >ran")}, client.Writers(nil, nil))
		if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID {
			t.Fatalf("got %v", err)
		}
		m.KillServer()
	}
	if got := run(t, c, shell("cat ran")); got.stdout != "" {
		t.Fatal("it ran")
	}
	done := run(t, c, shell("exit 2"))
	if state := forbid(done.ID); state != wirev1.ExecState_EXEC_STATE_EXITED {
		t.Fatalf("a finished one is %v", state)
	}
	other := m.Client(machinetest.ClientOptions{Scope: "s/two"})
	_, err := other.RPC().Forbid(limited(t), connect.NewRequest(&wirev1.ForbidRequest{ExecId: done.ID, Scope: "s/two"}))
	if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_CONFLICT {
		t.Fatalf("another scope's: %v", err)
	}
}

// Of a start and a forbid of one id only one can have it.
func TestStartAndForbidExcludeEachOther(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	for i := range 50 {
		id := newID(t)
		forbidden := make(chan wirev1.ExecState, 1)
		go func() {
			answer, err := c.RPC().Forbid(limited(t), connect.NewRequest(&wirev1.ForbidRequest{ExecId: id, Scope: machinetest.Scope}))
			if err != nil {
				t.Errorf("forbid: %v", err)
			}
			forbidden <- answer.Msg.GetState()
		}()
		_, err := c.Run(limited(t), client.Command{ID: id, Spec: shell("echo $1 >>ran", fmt.Sprint(i))}, client.Writers(nil, nil))
		refused := wire.ReasonOf(err) == wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID
		if err != nil && !refused {
			t.Fatal(err)
		}
		if state := <-forbidden; (state == wirev1.ExecState_EXEC_STATE_FORBIDDEN) != refused {
			t.Fatalf("round %d: forbid says %v, start says %v", i, state, err)
		}
	}
}

// gptme/gptme#3805: setsid escaped the kill.
func TestSignalReachesTheTreeAndSaysHow(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	hello, err := c.Hello(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	exec := begin(t, c, shell("setsid sh -c 'echo $$ >daemon; exec sleep 1000' & sleep 1000"))
	daemon := waitForFile(t, filepath.Join(m.Data, "workspace", "daemon"))
	answer, err := c.Signal(limited(t), exec.id, 9, wirev1.SignalTarget_SIGNAL_TARGET_TREE)
	if err != nil || answer.GetReachedBy() != hello.GetTreeKill() {
		t.Fatalf("got %v, %v", answer, err)
	}
	exec.wait(t)
	eventually(t, "the daemon to be gone", func() bool { return !alive(t, daemon) })
}

func TestSignalToTheLeaderAloneLeavesTheRest(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	exec := begin(t, c, shell("sh -c 'echo $$ >child; exec sleep 1000' & wait"))
	child := waitForFile(t, filepath.Join(m.Data, "workspace", "child"))
	if _, err := c.Signal(limited(t), exec.id, 15, wirev1.SignalTarget_SIGNAL_TARGET_LEADER); err != nil {
		t.Fatal(err)
	}
	if got := exec.wait(t); got.Exit.GetSignal() != 15 || !got.Exit.GetOrphans() || !alive(t, child) {
		t.Fatalf("got %v, child alive %v", got.Exit, alive(t, child))
	}
}

func TestHarmlessSignalIsNoCause(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	exec := begin(t, c, shell("trap 'echo usr; exit 4' USR1; echo ready; while :; do sleep 0.05; done"))
	eventually(t, "the trap", func() bool { return listed(t, c, exec.id).GetStdoutEnd() == 6 })
	if _, err := c.Signal(limited(t), exec.id, int32(syscall.SIGUSR1), wirev1.SignalTarget_SIGNAL_TARGET_LEADER); err != nil {
		t.Fatal(err)
	}
	if got := exec.wait(t); got.Exit.GetCode() != 4 || got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_EXITED {
		t.Fatalf("got %v", got.Exit)
	}
}

func TestSyncedExecEndsAsAnyOther(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell("echo out; exit 2")
	spec.SyncOnExit = true
	if got := run(t, c, spec); got.stdout != "out\n" || got.Exit.GetCode() != 2 {
		t.Fatalf("got %q, %v", got.stdout, got.Exit)
	}
}

// A volume filled to the last byte: the command that makes room runs, ends arrive, and offsets say what
// is missing.
func TestFullDiskStopsNoCommandAndNoEnd(t *testing.T) {
	m, err := machinetest.Launch(t, machinetest.Options{Attr: ownPIDs(), Env: []string{machinetest.ProcEnv + "=true", machinetest.TmpfsEnv + "=24m"}})
	if errors.Is(err, syscall.EPERM) {
		t.Fatal("the kernel forbids user namespaces to this user; allow them: sysctl -w kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0")
	}
	if err != nil {
		t.Fatal(err)
	}
	c := m.Client(machinetest.ClientOptions{})
	early := begin(t, c, shell(`while [ ! -e go ]; do sleep 0.05; done; seq 1 100000; while [ ! -e go2 ]; do sleep 0.05; done; echo room again; exit 7`))
	run(t, c, shell("cat /dev/zero >filler; : >go"))
	eventually(t, "the output on a full disk", func() bool { return listed(t, c, early.id).GetStdoutEnd() == 588895 })
	full := run(t, c, shell("df -P . | tail -n 1 | tr -s ' ' | cut -d' ' -f4"))
	if strings.TrimSpace(full.stdout) != "0" {
		t.Fatalf("the disk has %q blocks left", full.stdout)
	}
	if !full.Started.GetVolatile() {
		t.Fatal("an exec on a full disk does not say that it is volatile")
	}
	if got := run(t, c, shell("exit 9")); got.Exit.GetCode() != 9 {
		t.Fatalf("got %v", got.Exit)
	}
	if got := run(t, c, shell("rm filler; : >go2")); got.Exit.GetCode() != 0 {
		t.Fatalf("rm: %v, %q", got.Exit, got.stderr)
	}
	got := early.wait(t)
	missing := uint64(0)
	for _, g := range got.Gaps {
		if g.GetReason() != wirev1.GapReason_GAP_REASON_DISK_FULL {
			t.Fatalf("got %v", g)
		}
		missing += g.GetTo() - g.GetFrom()
	}
	if got.Exit.GetCode() != 7 || missing == 0 || uint64(len(got.stdout))+missing != got.Exit.GetStdoutEnd() {
		t.Fatalf("got %v, %d bytes, %d missing", got.Exit, len(got.stdout), missing)
	}
}
