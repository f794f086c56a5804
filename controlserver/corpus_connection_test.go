//go:build linux

package controlserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// e2b-dev/E2B#1074, mastra-ai/mastra#24349, rivet-dev/sandbox-agent#152: the command died with the stream that started it.
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

// e2b-dev/infra#3292, e2b-dev/E2B#1352: one subscriber that stopped reading starved the others and the process.
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

// e2b-dev/E2B#1407, e2b-dev/E2B#1793, runloopai/api-client-python#825: commands queued behind 100 streams.
func TestFourHundredCommandsRunAtOnceOnOneConnection(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	dialer := &countingDialer{}
	c := m.Client(machinetest.ClientOptions{Dial: dialer.dial})
	const n = 400
	// They wait without a clock, which 400 of them would keep busy: each for a line of one pipe.
	run(t, c, shell("mkfifo go"))
	lines, err := os.OpenFile(filepath.Join(m.Data, "workspace", "go"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	all := make([]*begun, n)
	for i := range all {
		all[i] = begin(t, c, shell(`read _ <go; echo "$1"`, strconv.Itoa(i)))
	}
	if answer, err := c.List(limited(t), true); err != nil || len(answer) != n {
		t.Fatalf("%d commands run, %v", len(answer), err)
	}
	if _, err := lines.WriteString(strings.Repeat("\n", n)); err != nil {
		t.Fatal(err)
	}
	for i, b := range all {
		if got := b.wait(t); got.stdout != strconv.Itoa(i)+"\n" {
			t.Fatalf("command %d printed %q, %q, %v", i, got.stdout, got.stderr, got.Result)
		}
	}
	if got := dialer.count.Load(); got != 1 {
		t.Fatalf("%d connections were opened", got)
	}
}

// golang/go#16510, golang/go#54330, golang/go#62722: streams nobody reads exhausted the connection's window.
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

// e2b-dev/E2B#1590: a stream that its client had left lived on in the machine.
func TestAbandonedStreamsEndOnTheMachine(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	dialer := &countingDialer{}
	c := m.Client(machinetest.ClientOptions{Dial: dialer.dial})
	exec := begin(t, c, shell("exec sleep 1000"))
	const n = 20
	ctx, leave := context.WithCancel(limited(t))
	defer leave()
	var streams []*connect.ServerStreamForClient[wirev1.Event]
	for range n {
		s, err := c.RPC().Attach(ctx, connect.NewRequest(&wirev1.AttachRequest{ExecId: exec.id, Scope: machinetest.Scope, Follow: true}))
		if err != nil || !s.Receive() {
			t.Fatalf("attach: %v, %v", err, s.Err())
		}
		streams = append(streams, s)
	}
	if got := listed(t, c, exec.id).GetAttached(); got != n+1 {
		t.Fatalf("%d streams are attached", got)
	}
	leave()
	for _, s := range streams {
		_ = s.Close()
	}
	eventually(t, "the streams to end on the machine", func() bool { return listed(t, c, exec.id).GetAttached() == 1 })
	if got := dialer.count.Load(); got != 1 {
		t.Fatalf("%d connections were opened: streams did not end by themselves", got)
	}
}

// PrimeIntellect-ai/prime#868: the answer of a start was lost, and the retry ran the command twice.
func TestStartWhoseAnswerWasLostRanOnce(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	ran := filepath.Join(m.Data, "workspace", "count")
	mute := &muteDialer{until: func() bool { _, err := os.Stat(ran); return err == nil }}
	c := m.Client(machinetest.ClientOptions{Dial: mute.dial})
	var out bytes.Buffer
	got, err := c.Run(limited(t), client.Command{Spec: shell("echo ran >>count; echo once; exit 4")}, client.Writers(&out, nil))
	if err != nil || got.Exit.GetCode() != 4 || out.String() != "once\n" {
		t.Fatalf("got %v, %q, %v", got.Exit, out.String(), err)
	}
	if !got.Started.GetAlreadyStarted() || mute.dials.Load() != 2 {
		t.Fatalf("the first answer was not lost: %v, %d connections", got.Started, mute.dials.Load())
	}
	if text, err := os.ReadFile(ran); err != nil || string(text) != "ran\n" {
		t.Fatalf("ran %q, %v", text, err)
	}
}

// muteDialer opens a first connection on which nothing comes back, and which breaks once a condition
// holds; the next ones work.
type muteDialer struct {
	until func() bool
	dials atomic.Int32
}

func (d *muteDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || d.dials.Add(1) > 1 {
		return conn, err
	}
	return &muteConn{Conn: conn, until: d.until}, nil
}

type muteConn struct {
	net.Conn
	until func() bool
}

func (c *muteConn) Read([]byte) (int, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if c.until() {
			break
		}
	}
	c.Close()
	return 0, io.ErrUnexpectedEOF
}
