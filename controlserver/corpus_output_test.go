//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// kubernetes/kubernetes#124571: over a slow link the tail of the output was cut, with status 0.
func TestLastLineOfALongOutputArrives(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{Dial: dialSlowly})
	for range 5 {
		got := run(t, c, shell("seq 1 2000000 | tail -n 1; seq 1 200000"))
		if got.Exit.GetCode() != 0 || len(got.stdout) != 8+1288895 || !strings.HasPrefix(got.stdout, "2000000\n1\n") || !strings.HasSuffix(got.stdout, "\n199999\n200000\n") {
			t.Fatalf("got %d bytes ending in %q, %v", len(got.stdout), got.stdout[max(0, len(got.stdout)-20):], got.Exit)
		}
	}
}

// dialSlowly opens a connection that gives 8 KiB a millisecond: the command is over long before the last
// byte of its output is here.
func dialSlowly(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: conn, tick: time.NewTicker(time.Millisecond)}, nil
}

type slowConn struct {
	net.Conn
	tick *time.Ticker
}

func (c *slowConn) Read(p []byte) (int, error) {
	<-c.tick.C
	return c.Conn.Read(p[:min(len(p), 8<<10)])
}

// containers/podman#9096: single-byte writes were lost.
func TestEverySingleByteWriteArrives(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	got := run(t, c, shell("dd if=/dev/zero bs=1 count=500000 2>/dev/null"))
	if len(got.stdout) != 500000 {
		t.Fatalf("got %d bytes", len(got.stdout))
	}
}

// golang/go#19685, golang/go#68308, golang/go#69060: output of short commands was lost to an early close.
func TestOutputOfShortCommandsIsNeverLost(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	run(t, c, shell("mkdir d && touch d/one d/two"))
	spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte("ls"), []byte("d")}}
	for i := range 1000 {
		if got := run(t, c, spec); got.stdout != "one\ntwo\n" || got.Exit.GetCode() != 0 {
			t.Fatalf("round %d printed %q, %v", i, got.stdout, got.Exit)
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

// strands-agents/harness-sdk#4156, anomalyco/opencode#15385, wonderwhy-er/DesktopCommanderMCP#628: a
// character cut in two became two replacement characters.
func TestCharacterWrittenInTwoPartsArrivesInOneChunk(t *testing.T) {
	c := machinetest.Start(t, machinetest.Options{}).Client(machinetest.ClientOptions{})
	eventually(t, "the two parts to be written within a second, on this computer", func() bool {
		sink := &chunkSink{}
		begun := time.Now()
		_, err := c.Run(limited(t), client.Command{Spec: shell(`printf 'a\342'; sleep 0.1; printf '\211\244b'`)}, sink)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Join(sink.chunks, nil); string(got) != "a≤b" {
			t.Fatalf("got %q", got)
		}
		for _, chunk := range sink.chunks {
			if utf8.Valid(chunk) {
				continue
			}
			if time.Since(begun) < time.Second {
				t.Fatalf("a chunk splits the character: %q", sink.chunks)
			}
			return false // the first part was held for its second
		}
		return true
	})
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

// MisterTea/EternalTerminal#631, MisterTea/EternalTerminal#731: the program blocked once its client was gone and a buffer full.
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

// A command that prints without end for a client that takes nothing runs on, delays nobody, and takes no
// more of the disk than its cap.
func TestEndlessOutputThatNobodyTakesIsBounded(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	c := m.Client(machinetest.ClientOptions{})
	spec := shell("exec cat /dev/zero")
	const most = 8 << 20
	spec.StdoutCapBytes = most
	sink := &blockingSink{hold: make(chan struct{}), reached: make(chan struct{})}
	release := sync.OnceFunc(func() { close(sink.hold) })
	defer release()
	exec := beginSink(t, m.Client(machinetest.ClientOptions{}), spec, sink)
	<-sink.reached
	eventually(t, "output far beyond the cap", func() bool { return listed(t, c, exec.id).GetStdoutEnd() > 20*most })
	if got := run(t, c, shell("echo beside")); got.stdout != "beside\n" {
		t.Fatalf("got %q", got.stdout)
	}
	if _, err := c.Signal(limited(t), exec.id, int32(syscall.SIGKILL), wirev1.SignalTarget_SIGNAL_TARGET_GROUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return listed(t, c, exec.id).GetExit().GetSignal() == 9 })
	var used syscall.Stat_t
	if err := syscall.Stat(filepath.Join(m.Data, "spool", "execs", exec.id, "out"), &used); err != nil {
		t.Fatal(err)
	}
	if used.Blocks*512 > most+4<<20 {
		t.Fatalf("%d KiB are stored", used.Blocks/2)
	}
	release()
	if got := exec.wait(t); got.Exit.GetSignal() != 9 || len(got.Gaps) == 0 || got.Offsets.GetStdout() != got.Exit.GetStdoutEnd() {
		t.Fatalf("got %v, %d gaps, %v", got.Exit, len(got.Gaps), got.Offsets)
	}
}
