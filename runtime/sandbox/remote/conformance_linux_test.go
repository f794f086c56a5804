package remote_test

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// way is how a client's connection to a machine is made.
type way func(ctx context.Context) (net.Conn, error)

// harness is the suite's access to a machine.
func harness(t *testing.T, name string, m *machine, w way) sandboxtest.Harness {
	t.Helper()
	openAs := func(t testing.TB, dir string, o client.Options) sandbox.Sandbox {
		if w != nil {
			o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return w(ctx) }
		}
		return m.box(t, remote.Options{Machine: o, Dir: dir})
	}
	box := func(t testing.TB, dir string) sandbox.Sandbox { return openAs(t, dir, m.options()) }
	atHome := func(t testing.TB) sandbox.Sandbox { return box(t, m.fresh(t, "/workspace")) }
	h := sandboxtest.Harness{
		Name: name, Open: atHome, Denied: atHome, Latency: 50 * time.Millisecond,
		Full:  func(t testing.TB) sandbox.Sandbox { return box(t, m.fresh(t, "/small")) },
		Again: func(t testing.TB, b sandbox.Sandbox) sandbox.Sandbox { return box(t, b.Dir()) },
		Owned: func(t testing.TB) func(uint64) sandbox.Sandbox {
			dir := m.fresh(t, "/workspace")
			o := m.optionsOf("s" + dir)
			return func(owner uint64) sandbox.Sandbox {
				o := o
				o.Fence = owner
				return openAs(t, dir, o)
			}
		},
		Restart: m.restart,
		Absent:  map[sandboxtest.Fixture]string{},
	}
	if !m.small {
		h.Full, h.Absent[sandboxtest.Full] = nil, "only root may mount a small file system"
	}
	if sh(t, m.own, "id -u") == "0\n" {
		h.Denied, h.Absent[sandboxtest.Denied] = nil, "a machine of one id has no ordinary user: run as root, or with newuidmap"
	}
	return h
}

// The suite on both userlands. In the short form a spread of the cases runs on coreutils: it is busybox that does as it likes.
func TestConformance(t *testing.T) {
	t.Run(string(busybox), func(t *testing.T) {
		sandboxtest.Run(t, harness(t, "remote on busybox", boot(t, busybox), nil))
	})
	t.Run(string(coreutils), func(t *testing.T) {
		some(t, harness(t, "remote on coreutils", boot(t, coreutils), nil), 16, 3)
	})
}

// some runs one case in so many, of those of names and of all others; all of them where time is no matter.
func some(t *testing.T, h sandboxtest.Harness, names, others int) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range sandboxtest.Cases() {
		seen[c.Concept]++
		every := others
		if c.Concept == "names" {
			every = names
		}
		if os.Getenv("FLYFLEET_TEST_LONG") == "" && (seen[c.Concept]-1)%every != 0 {
			continue
		}
		if h.Absent[c.Needs] != "" {
			t.Logf("not run: %s: %s", c, h.Absent[c.Needs])
			continue
		}
		t.Run(c.String(), func(t *testing.T) { h.RunCase(t, c) })
	}
}

// 30 ms there and back.
func TestConformanceFromAfar(t *testing.T) {
	m := boot(t, busybox)
	f := newFar(t, 15*time.Millisecond, func(ctx context.Context) (net.Conn, error) { return m.Dial(ctx, wire.ControlPort) })
	some(t, harness(t, "remote from afar", m, f.connect), 30, 12)
}

// The server dies again and again, each time when a client has read from it so often: at any moment of any operation.
func TestConformanceWhileTheServerDies(t *testing.T) {
	m := boot(t, coreutils)
	k := newKiller(t, m, 97)
	h := harness(t, "remote on a dying server", m, k.connect)
	h.Restart, h.Absent[sandboxtest.Restart] = nil, "what kills the server needs the machine"
	open := h.Open
	h.Open = func(t testing.TB) sandbox.Sandbox {
		k.inCase.Store(0)
		return open(t)
	}
	some(t, h, 30, 8)
	if k.kills.Load() == 0 {
		t.Error("the server was never killed")
	}
	t.Logf("killed %d times", k.kills.Load())
}

// killServer ends the one process that answers callers: it is the program that the keeper runs again. The quotes keep this very text
// from looking like it.
const killServer = `for d in /proc/[0-9]*; do case "$(tr '\0' ' ' <"$d/cmdline" 2>/dev/null)" in *"exe"" calls "*) kill -9 "${d#/proc/}" ;; esac; done; exit 0`

// killer kills a machine's server by the progress of those who talk to it, in a case ever more rarely: a server counts a command's time by the
// second, so one that never lives for a second ends no command, and a case that polls for that end would poll for ever.
type killer struct {
	m      *machine
	every  int64
	reads  atomic.Int64 // since the last kill
	kills  atomic.Int64
	inCase atomic.Int64 // kills of the present case
	next   chan struct{}
	done   sync.WaitGroup
}

func newKiller(t testing.TB, m *machine, every int64) *killer {
	k := &killer{m: m, every: every, next: make(chan struct{}, 1)}
	k.done.Go(func() {
		for range k.next {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			r, err := m.Exec(ctx, runner.ExecRequest{Argv: []string{"sh", "-c", killServer}})
			cancel()
			if err != nil || r.Code != 0 {
				t.Errorf("killing the server: %v, %d: %s", err, r.Code, r.Stderr)
				continue
			}
			k.kills.Add(1)
			k.inCase.Add(1)
		}
	})
	t.Cleanup(func() {
		close(k.next)
		k.done.Wait()
	})
	return k
}

func (k *killer) connect(ctx context.Context) (net.Conn, error) {
	conn, err := k.m.Dial(ctx, wire.ControlPort)
	if err != nil {
		return nil, err
	}
	return &watched{conn, k}, nil
}

type watched struct {
	net.Conn
	k *killer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.k.reads.Add(1) >= w.k.every*(1+w.k.inCase.Load()) {
		w.k.reads.Store(0)
		select {
		case w.k.next <- struct{}{}:
		default:
		}
	}
	return n, err
}
