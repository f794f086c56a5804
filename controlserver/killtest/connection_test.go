package killtest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// relay carries connections to a machine. What it cuts stays open on both sides and carries nothing
// more, as when a cable is pulled: neither side gets a FIN or a RST.
type relay struct {
	machine string

	mu    sync.Mutex
	live  *atomic.Bool // of the newest connection: carries
	dials int
}

// dial is a client's way to the machine.
func (r *relay) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	far, err := new(net.Dialer).DialContext(ctx, network, r.machine)
	if err != nil {
		return nil, err
	}
	carries := new(atomic.Bool)
	carries.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = carries
	r.dials++
	return &relayed{Conn: far, carries: carries, closed: make(chan struct{})}, nil
}

// cut returns how many connections there were so far.
func (r *relay) cut() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Store(false)
	return r.dials
}

func (r *relay) dialled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials
}

// relayed swallows both directions once it carries no more.
type relayed struct {
	net.Conn
	carries *atomic.Bool
	closed  chan struct{}
	once    sync.Once
}

func (c *relayed) Read(p []byte) (int, error) {
	if c.carries.Load() {
		if n, err := c.Conn.Read(p); c.carries.Load() {
			return n, err
		}
	}
	<-c.closed
	return 0, io.ErrClosedPipe
}

func (c *relayed) Write(p []byte) (int, error) {
	if !c.carries.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *relayed) Close() error {
	c.once.Do(func() { close(c.closed) })
	if !c.carries.Load() {
		// The machine must find out by itself: the socket is left to the end of the test.
		return nil
	}
	return c.Conn.Close()
}

// connectionCut pulls the cable under a running command. The client notices by the silence after its
// pings, dials again and goes on.
func connectionCut(t *testing.T, sum *tally) {
	cuts := 1
	if long() {
		cuts = 4
	}
	m, book := start(t, machinetest.Options{}), newLedger()
	wire := &relay{machine: m.Address}
	c := m.Client(machinetest.ClientOptions{Dial: wire.dial})
	id := book.ask()
	var seen atomic.Uint64
	sink := &numberedSink{numbered: numbered{"\n"}, seen: func(end uint64) { seen.Store(end) }}
	ctx := limited(t, patient.Patience)
	done := make(chan error, 1)
	var got client.Result
	go func() {
		var err error
		got, err = c.Run(ctx, client.Command{ID: id, Spec: script(id, untilSlowGo), Follow: patient}, sink)
		done <- err
	}()
	for range cuts {
		before := seen.Load()
		if err := until(ctx, func() bool { return seen.Load() > before }); err != nil {
			t.Fatal(err)
		}
		dials := wire.cut()
		if err := until(ctx, func() bool { return wire.dialled() > dials }); err != nil {
			t.Fatalf("the client did not notice the cut: %v", err)
		}
	}
	letGo(t, m, id)
	err := <-done
	if err == nil {
		err = right(got, 3)
	}
	if err != nil || sink.end != got.Exit.GetStdoutEnd() || got.Reattached < cuts {
		t.Fatalf("%d bytes, %d attached again: %v, %v", sink.end, got.Reattached, got.Exit, err)
	}
	book.right(id, int64(sink.end))
	sum.add(1, cuts, book.exact(t, m.Data))
}

// untilSlowGo is untilGo with a rest after every thousand lines, for a command of half a minute.
const untilSlowGo = `i=10000000; while [ ! -e "$WORKSPACE/go-$0" ]; do echo $i; i=$((i+1)); [ $((i % 5000)) -ne 0 ] || sleep 0.02; done; exit 3`
