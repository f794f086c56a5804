//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// e2b-dev/E2B#1034, cloudflare/sandbox-sdk#388: a kill left the shell's child alive.
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

// use-agent-os/agent-os#3334: a background child's life decided the command's outcome.
func TestBackgroundChildDoesNotChangeTheCode(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("(sleep 10 >/dev/null 2>&1 &) ; exit 0")); got.Exit.GetCode() != 0 || got.Exit.GetOrphans() {
		t.Fatalf("got %v", got.Exit)
	}
}

// e2b-dev/E2B#1074, rivet-dev/sandbox-agent#152: the command died with the stream that started it.
func TestCommandOutlivesItsClient(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	first := m.Client(machinetest.ClientOptions{})
	ctx, cancel := context.WithCancel(limited(t))
	id := newID(t)
	started := &startedSink{Sink: client.Writers(nil, nil), seen: func() { cancel() }}
	_, err := first.Run(ctx, client.Command{ID: id, Spec: shell("while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3")}, started)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("want the cancellation, got %v", err)
	}
	first.Close()
	second := m.Client(machinetest.ClientOptions{})
	run(t, second, shell("touch go"))
	var out bytes.Buffer
	got, err := second.Attach(limited(t), id, client.Follow{}, client.Writers(&out, nil))
	if err != nil || got.Exit.GetCode() != 3 || out.String() != "done\n" {
		t.Fatalf("got %v, %q, %v", got.Exit, out.String(), err)
	}
}

// daytonaio/daytona#4230, cloudflare/sandbox#30: line-oriented framing broke here-documents.
func TestHereDocumentIsOneCommand(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("cat <<'E' > f\none\ntwo $x\nE\ncat f")); got.stdout != "one\ntwo $x\n" {
		t.Fatalf("got %q, %q", got.stdout, got.stderr)
	}
}

// daytonaio/daytona#3770: a program that reads stdin hung where none was given.
func TestNoStdinIsAnImmediateEnd(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("cat; echo end")); got.stdout != "end\n" {
		t.Fatalf("got %q", got.stdout)
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

// e2b-dev/infra#3292, E2B#1352: one subscriber that stopped reading starved the others and the process.
func TestReaderThatStallsStarvesNobody(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	stalled := m.Client(machinetest.ClientOptions{})
	id := newID(t)
	const size = 64 << 20
	hold := make(chan struct{})
	sink := &blockingSink{hold: hold, reached: make(chan struct{})}
	ctx, cancel := context.WithCancel(limited(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = stalled.Run(ctx, client.Command{ID: id, Spec: shell("head -c " + strconv.Itoa(size) + " /dev/zero")}, sink)
	})
	<-sink.reached
	count := new(countingWriter)
	got, err := m.Client(machinetest.ClientOptions{}).Attach(limited(t), id, client.Follow{}, client.Writers(count, nil))
	cancel()
	close(hold)
	wg.Wait()
	if err != nil || got.Exit.GetStdoutEnd() != size || count.n != size {
		t.Fatalf("got %d of %d bytes, %v, %v", count.n, size, got.Exit, err)
	}
}

// e2b-dev/E2B#1407, runloopai/api-client-python#825: commands queued behind 100 streams.
func TestFourHundredCommandsRunAtOnceOnOneConnection(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	dialer := &countingDialer{}
	c := m.Client(machinetest.ClientOptions{Dial: dialer.dial})
	const n = 400
	all := make([]*begun, n)
	for i := range all {
		all[i] = begin(t, c, shell(`while [ ! -e go ]; do sleep 0.2; done; echo "$1"`, strconv.Itoa(i)))
	}
	run(t, c, shell("touch go"))
	for i, b := range all {
		if got := b.wait(t); got.stdout != strconv.Itoa(i)+"\n" {
			t.Fatalf("command %d printed %q, %q, %v", i, got.stdout, got.stderr, got.Result)
		}
	}
	if got := dialer.count.Load(); got != 1 {
		t.Fatalf("%d connections were opened", got)
	}
}

// golang/go#16510, #62722: streams nobody reads exhausted the connection's window.
func TestEightStalledStreamsLeaveTheConnectionUsable(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	ctx, cancel := context.WithCancel(limited(t))
	hold := make(chan struct{})
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = newID(t)
		sink := &blockingSink{hold: hold, reached: make(chan struct{})}
		wg.Go(func() {
			_, _ = c.Run(ctx, client.Command{ID: ids[i], Spec: shell("head -c 16777216 /dev/zero")}, sink)
		})
		<-sink.reached
	}
	for range 20 {
		if got := run(t, c, shell("echo through")); got.stdout != "through\n" {
			t.Fatalf("got %q", got.stdout)
		}
	}
	for _, id := range ids {
		eventually(t, "a producer that nobody reads to finish", func() bool {
			return listed(t, c, id).GetExit().GetStdoutEnd() == 16<<20
		})
	}
	cancel()
	close(hold)
	wg.Wait()
}

// kubernetes/kubernetes#124571: the tail of the output was cut, with status 0.
func TestLastLineOfALongOutputArrives(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	for range 5 {
		got := run(t, c, shell("seq 1 200000 | tail -n 1; seq 1 200000"))
		if !strings.HasPrefix(got.stdout, "200000\n1\n") || !strings.HasSuffix(got.stdout, "\n199999\n200000\n") {
			t.Fatalf("got %d bytes ending in %q", len(got.stdout), got.stdout[max(0, len(got.stdout)-20):])
		}
	}
}

// containers/podman#9096: single-byte writes were lost.
func TestEverySingleByteWriteArrives(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("dd if=/dev/zero bs=1 count=100000 2>/dev/null"))
	if len(got.stdout) != 100000 {
		t.Fatalf("got %d bytes", len(got.stdout))
	}
}

// golang/go#19685, #69060: output of short commands was lost to an early close.
func TestOutputOfShortCommandsIsNeverLost(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	for i := range 200 {
		if got := run(t, c, shell("echo $1", strconv.Itoa(i))); got.stdout != strconv.Itoa(i)+"\n" {
			t.Fatalf("round %d printed %q", i, got.stdout)
		}
	}
}

// ziglang/zig#6343, stemdeckapp/stemdeck#516: a full stderr blocked the command while stdout was read.
func TestBothStreamsAreDrainedAtOnce(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("head -c 200000 /dev/zero >&2; echo out"))
	if len(got.stderr) != 200000 || got.stdout != "out\n" {
		t.Fatalf("got %d, %q", len(got.stderr), got.stdout)
	}
}

// strands-agents/harness-sdk#4156, anomalyco/opencode#15385: a character cut in two became two
// replacement characters.
func TestCharacterWrittenInTwoPartsArrivesInOneChunk(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	sink := &chunkSink{}
	_, err := c.Run(limited(t), client.Command{Spec: shell(`printf 'a\342'; sleep 0.1; printf '\211\244b'`)}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Join(sink.chunks, nil); string(got) != "a≤b" {
		t.Fatalf("got %q", got)
	}
	for _, chunk := range sink.chunks {
		if strings.ContainsRune(strings.ToValidUTF8(string(chunk), "�"), '�') {
			t.Fatalf("a chunk splits the character: %q", sink.chunks)
		}
	}
}

// Bytes that are no text are held for a second at most, and arrive as they are.
func TestHalfACharacterAtTheEndArrives(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell(`printf 'x\342\211'`)); got.stdout != "x\xe2\x89" {
		t.Fatalf("got %q", got.stdout)
	}
	sink := &chunkSink{arrived: make(chan string, 16)}
	exec := beginSink(t, c, shell(`printf 'y\360\237'; while [ ! -e go ]; do sleep 0.05; done`), sink)
	all := ""
	for all != "y\xf0\x9f" {
		select {
		case chunk := <-sink.arrived:
			all += chunk
		case <-limited(t).Done():
			t.Fatalf("held on: got %q", all)
		}
	}
	run(t, c, shell("touch go"))
	exec.wait(t)
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

// earendil-works/gondolin#130, computesdk/computesdk#783: content in an argument met the kernel's
// limit of 128 KiB; the report echoed it all.
func TestArgumentTooLongForTheKernelIsData(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	got := run(t, m.Client(machinetest.ClientOptions{}), shell("exit 0", strings.Repeat("secret", 40<<10))).Exit
	if got.GetStartFailure() != wirev1.StartFailure_START_FAILURE_ARGUMENTS_TOO_LONG || got.GetCode() != 126 {
		t.Fatalf("got %v", got)
	}
	if strings.Contains(got.GetMessage()+m.Log(), "secretsecret") {
		t.Fatal("the argument is quoted")
	}
}

// madarco/agentbox#359, openai/openai-agents-python#4708, OSC/ondemand#2624: names with newlines,
// blanks, leading dashes or bytes that are no text.
func TestAnyNameSurvivesTheWire(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	names := []string{"a\nb", "trail ", "-rf", "it's", "x -> y", "b\xffad", "\xe2\x89", `back\slash`, "$(touch no)"}
	for _, name := range names {
		got := run(t, c, shell(`printf '%s' "$V" >"./$1" && cat -- "./$1"`, name))
		_ = got
	}
	got := run(t, c, shell("find . -mindepth 1 -maxdepth 1 -print0"))
	have := strings.Split(strings.TrimSuffix(got.stdout, "\x00"), "\x00")
	for i := range have {
		have[i] = strings.TrimPrefix(have[i], "./")
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		t.Fatalf("have %q, want %q", have, names)
	}
	spec := shell(`printf '%s' "$V"; pwd`)
	spec.Env = []*wirev1.EnvVar{{Name: []byte("V"), Value: []byte("a\xffb")}}
	run(t, c, shell("mkdir 'd\xff'"))
	spec.Cwd = []byte("d\xff")
	if got := run(t, c, spec); !strings.HasPrefix(got.stdout, "a\xffb") || !strings.HasSuffix(got.stdout, "d\xff\n") {
		t.Fatalf("got %q", got.stdout)
	}
}

// madarco/agentbox#359: three thousand paths in one argument met a limit; they travel on stdin.
func TestThousandsOfPathsTravelOnStdin(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	var paths strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&paths, "./a path with blanks and\na newline, number %04d, long enough to be past the kernel's limit of 128 KiB\x00", i)
	}
	spec := shell("xargs -0 -n 500 sh -c 'for p; do printf \"%s\\0\" \"$p\"; done' sh")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	var out bytes.Buffer
	got, err := c.Run(limited(t), client.Command{Spec: spec, Follow: client.Follow{Stdin: strings.NewReader(paths.String())}}, client.Writers(&out, nil))
	if err != nil || got.Exit.GetCode() != 0 || out.String() != paths.String() {
		t.Fatalf("got %v, %v, %d of %d bytes", got.Exit, err, out.Len(), paths.Len())
	}
}

// langfuse/langfuse#15955: a server that the command had started kept its port after the time limit.
func TestWallLimitFreesThePortOfABackgroundServer(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	spec := shell("(echo $$ >group; exec 9<>lock-held; sleep 1000) & wait")
	spec.WallTimeoutMs = 400
	if got := run(t, c, spec); got.Exit.GetCause() != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT {
		t.Fatalf("got %v", got.Exit)
	}
	group := waitForFile(t, filepath.Join(m.Data, "workspace", "group"))
	eventually(t, "the background server to be gone", func() bool { return len(groupOf(t, group)) == 0 })
}

// e2b-dev/E2B#1418: a connection that was closing under a request failed it.
func TestCallsOnADyingConnectionGoToANewOne(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	cut := &cuttingDialer{}
	c := m.Client(machinetest.ClientOptions{Dial: cut.dial})
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() { cut.cutEvery(stop, 2000) })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				want := fmt.Sprintf("%d of %d\n", i, w)
				var out bytes.Buffer
				got, err := c.Run(limited(t), client.Command{Spec: shell("printf %s \"$1\"", want)}, client.Writers(&out, nil))
				if err != nil || got.Exit.GetCode() != 0 || out.String() != want {
					t.Errorf("got %q, %v, %v", out.String(), got.Exit, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	cutting.Wait()
	if cut.cuts.Load() == 0 {
		t.Fatal("no connection was cut")
	}
}

// QwenLM/qwen-code#7256, devswha/gajae-code-app#121: children inherited the daemon's secrets.
func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{Env: []string{"TOKEN=of-the-daemon", "FLY_API_TOKEN=x", "LD_PRELOAD="}})
	c := m.Client(machinetest.ClientOptions{})
	spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte("/usr/bin/env"), []byte("-0")}}
	spec.Env = []*wirev1.EnvVar{{Name: []byte("GIVEN"), Value: []byte("1")}}
	spec.SecretEnv = []*wirev1.EnvVar{{Name: []byte("HUSH"), Value: []byte("hush-hush")}}
	got := run(t, c, spec)
	var names []string
	for _, line := range strings.Split(strings.TrimSuffix(got.stdout, "\x00"), "\x00") {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"GIVEN", "HOME", "HUSH", "LANG", "PATH", "USER", "WORKSPACE"}; !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	parent := run(t, c, shell(`cat /proc/$PPID/environ 2>/dev/null | tr '\0' '\n' | grep -c -e TRUST -e of-the-daemon`))
	if strings.TrimSpace(parent.stdout) != "0" {
		t.Fatalf("a command reads the control server's environment: %q", parent.stdout)
	}
	if files := spoolText(t, m); strings.Contains(files, "hush-hush") || strings.Contains(m.Log(), "hush-hush") {
		t.Fatal("a secret value is on the disk or in the log")
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

// MisterTea/EternalTerminal#731: the program blocked once its client was gone and a buffer full.
func TestOutputWithoutAClientIsKeptWhole(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	ctx, cancel := context.WithCancel(limited(t))
	id := newID(t)
	const script = "while [ ! -e go ]; do sleep 0.05; done; seq 1 500000"
	started := &startedSink{Sink: client.Writers(nil, nil), seen: func() { cancel() }}
	if _, err := c.Run(ctx, client.Command{ID: id, Spec: shell(script)}, started); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	run(t, c, shell("touch go"))
	eventually(t, "the command to end without a client", func() bool {
		return listed(t, c, id).GetState() == wirev1.ExecState_EXEC_STATE_EXITED
	})
	sum := sha256.New()
	if _, err := c.Attach(limited(t), id, client.Follow{}, client.Writers(sum, nil)); err != nil {
		t.Fatal(err)
	}
	want := sha256.New()
	for i := 1; i <= 500000; i++ {
		fmt.Fprintln(want, i)
	}
	if !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Fatal("the output differs")
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

// A truncating open of /dev/stdout must not cut what was printed, as it would if fd 1 were the file.
func TestReopenedStdoutDoesNotTruncate(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	if got := run(t, c, shell("echo one; echo two >/dev/stdout; echo three >/dev/stderr")); got.stdout != "one\ntwo\n" || got.stderr != "three\n" {
		t.Fatalf("got %q, %q", got.stdout, got.stderr)
	}
}

func TestMergedStreamsKeepTheirOrder(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	spec := shell("for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done")
	spec.MergeStderr = true
	want := ""
	for i := 1; i <= 9; i++ {
		want += fmt.Sprintf("o%d\ne%d\n", i, i)
	}
	if got := run(t, c, spec); got.stdout != want || got.stderr != "" {
		t.Fatalf("got %q, %q", got.stdout, got.stderr)
	}
}

func TestInlineStdinArrivesWhole(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	content := bytes.Repeat([]byte("0123456789abcde\n"), 4096)
	spec := shell("cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_INLINE, Inline: content}
	if got := run(t, c, spec); got.stdout != string(content) {
		t.Fatalf("got %d of %d bytes", len(got.stdout), len(content))
	}
}

// modal-labs/modal-client#4128, langchain-ai/langsmith-sdk#3022: records were lost or came twice when
// the transport dropped.
func TestReattachAtAnyOffsetGivesTheSameBytes(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	cut := &cuttingDialer{}
	c := m.Client(machinetest.ClientOptions{Dial: cut.dial})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { cut.cutEvery(stop, 200<<10) })
	defer func() { close(stop); wg.Wait() }()
	var out, errs bytes.Buffer
	const script = `i=0; while [ $i -lt 400 ]; do seq 1 1000; echo "e$i" >&2; i=$((i+1)); done`
	got, err := c.Run(limited(t), client.Command{Spec: shell(script)}, client.Writers(&out, &errs))
	if err != nil {
		t.Fatal(err)
	}
	if got.Reattached == 0 || cut.cuts.Load() == 0 {
		t.Fatalf("nothing was cut (%d cuts, %d re-attachments)", cut.cuts.Load(), got.Reattached)
	}
	var want, wantErrs bytes.Buffer
	for i := range 400 {
		for n := 1; n <= 1000; n++ {
			fmt.Fprintln(&want, n)
		}
		fmt.Fprintf(&wantErrs, "e%d\n", i)
	}
	if !bytes.Equal(out.Bytes(), want.Bytes()) || !bytes.Equal(errs.Bytes(), wantErrs.Bytes()) {
		t.Fatalf("%d of %d and %d of %d bytes, or others", out.Len(), want.Len(), errs.Len(), wantErrs.Len())
	}
	for _, at := range []uint64{0, 1, 4095, 65536, 100001, uint64(want.Len()) - 1, uint64(want.Len())} {
		var part bytes.Buffer
		if _, err := c.Attach(limited(t), got.ID, client.Follow{From: &wirev1.Offsets{Stdout: at}}, client.Writers(&part, nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(part.Bytes(), want.Bytes()[at:]) {
			t.Fatalf("from %d: %d of %d bytes, or others", at, part.Len(), want.Len()-int(at))
		}
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

func spoolText(t *testing.T, m *machinetest.Machine) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(m.Data, "spool"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "out" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(&all, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
