package killtest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
)

// cloudflare/sandbox-sdk#911, sandbox0-ai/sandbox0#263, diggerhq/opencomputer#382, hashicorp/nomad#8727: a
// command that printed nothing for minutes lost its stream. The long form is the reports' 310 s; the server's
// own tests have them by a clock that jumps.
func TestSilentCommandKeepsItsStream(t *testing.T) {
	t.Parallel()
	seconds := 20
	if long() {
		seconds = 310
	}
	m := start(t, machinetest.Options{})
	nat := newNAT(t, m.Address)
	ctx := limited(t, time.Duration(seconds)*time.Second+2*time.Minute)
	id := newID()
	exec := begin(ctx, t, m.Client(machinetest.ClientOptions{Dial: nat.dial}), id, script(id, `sleep "$1"; echo ok`, strconv.Itoa(seconds)))
	<-exec.done
	if err := errors.Join(exec.err, right(exec.got, 0)); err != nil || exec.out.String() != "ok\n" {
		t.Fatalf("got %q, %v", exec.out.String(), err)
	}
	if nat.count() != 1 || exec.got.Reattached != 0 {
		t.Fatalf("%d connections, attached again %d times", nat.count(), exec.got.Reattached)
	}
}

// modal-labs/modal-client#4121, opensandbox-group/OpenSandbox#1306: a NAT dropped a connection without a word,
// and neither end noticed for minutes. Here each finds out by its own pings: the client goes on from its
// offset on another connection, and the machine ends the stream of the dead one.
func TestConnectionThatANATForgotIsNoticedByBothEnds(t *testing.T) {
	t.Parallel()
	m := start(t, machinetest.Options{})
	nat := newNAT(t, m.Address)
	ctx := limited(t, 3*time.Minute)
	id := newID()
	exec := begin(ctx, t, m.Client(machinetest.ClientOptions{Dial: nat.dial}), id,
		script(id, `echo before; while [ ! -e "$WORKSPACE/forgot-$0" ]; do sleep 0.05; done; echo meanwhile; while [ ! -e "$WORKSPACE/go-$0" ]; do sleep 0.05; done; exit 3`))
	watcher := m.Client(machinetest.ClientOptions{})
	info := func() (attached uint32, end uint64) {
		all, err := watcher.List(ctx, false)
		if err != nil || len(all) != 1 {
			t.Fatalf("list: %v, %v", all, err)
		}
		return all[0].GetAttached(), all[0].GetStdoutEnd()
	}
	eventually(t, "the first line", func() bool { _, end := info(); return end == 7 })
	nat.forget()
	writeFile(t, m, "forgot-"+id)
	eventually(t, "both ends to notice", func() bool {
		attached, _ := info()
		return nat.count() == 2 && attached == 1
	})
	letGo(t, m, id)
	<-exec.done
	if err := errors.Join(exec.err, right(exec.got, 3)); err != nil || exec.out.String() != "before\nmeanwhile\n" || exec.got.Reattached != 1 {
		t.Fatalf("got %q, attached again %d times, %v", exec.out.String(), exec.got.Reattached, err)
	}
}

// nat is a TCP relay on the way to a machine. What it forgets it carries no more, and tells nobody: both
// sides keep an open socket whose bytes are taken and arrive nowhere.
type nat struct {
	listener net.Listener
	machine  string
	all      sync.WaitGroup

	mu    sync.Mutex
	flows []*flow
}

// flow is one connection through a nat.
type flow struct {
	ends      [2]net.Conn
	forgotten bool
}

func newNAT(t *testing.T, machine string) *nat {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &nat{listener: l, machine: machine}
	n.all.Go(n.accept)
	t.Cleanup(func() {
		_ = l.Close()
		n.mu.Lock()
		for _, f := range n.flows {
			_ = errors.Join(f.ends[0].Close(), f.ends[1].Close())
		}
		n.mu.Unlock()
		n.all.Wait()
	})
	return n
}

// dial is a client's way through the nat.
func (n *nat) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, n.listener.Addr().String())
}

func (n *nat) accept() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.machine)
		if err != nil {
			_ = near.Close()
			continue
		}
		f := &flow{ends: [2]net.Conn{near, far}}
		n.mu.Lock()
		n.flows = append(n.flows, f)
		n.mu.Unlock()
		n.all.Go(func() { n.carry(f, near, far) })
		n.all.Go(func() { n.carry(f, far, near) })
	}
}

// carry copies one direction; the end of a forgotten flow's one side is not told to the other.
func (n *nat) carry(f *flow, from, to net.Conn) {
	piece := make([]byte, 64<<10)
	for {
		size, err := from.Read(piece)
		n.mu.Lock()
		forgotten := f.forgotten
		n.mu.Unlock()
		if !forgotten {
			if _, failed := to.Write(piece[:size]); failed != nil || err != nil {
				_ = errors.Join(from.Close(), to.Close())
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forget drops all flows there are.
func (n *nat) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.flows {
		f.forgotten = true
	}
}

// count is how many connections there were.
func (n *nat) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.flows)
}
