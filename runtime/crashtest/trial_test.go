//go:build linux

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

const (
	tenant = "acme"
	// secret is planted on the machine in two halves, and known to the replicas.
	secret   = "planted-9f8e7d6c5b4a3210-secret"
	patience = 90 * time.Second
)

// trial is one submission, a database of its own, and replicas that die over it.
type trial struct {
	t       *testing.T
	program string
	url     string
	db      *store.Store
	machine *computer
	// box is the machine as the trial sees it, beside the session.
	box     *remote.Sandbox
	session uuid.UUID
	work    store.Submission
	// card is the one that a client was shown.
	card uuid.UUID
	// dir is the trial's own in the workspace.
	dir                     string
	crashes, script, agents string
	// env is what its replicas have besides, credentials what its submission brings.
	env         []string
	credentials map[string]string
	replicas    []*replica
	newest      atomic.Pointer[replica]
}

var trials atomic.Int64

// newTrial is one whose work is submitted, and whose cards are answered.
func newTrial(t *testing.T, m *computer) *trial {
	t.Helper()
	x := prepared(t, m)
	x.submit()
	x.approves()
	return x
}

// prepared is one that has a session.
func prepared(t *testing.T, m *computer) *trial {
	t.Helper()
	x := &trial{t: t, program: program(t), url: pgtest.Migrated(t), dir: fmt.Sprintf("trial%d", trials.Add(1))}
	runs.Add(1)
	t.Cleanup(func() {
		if t.Failed() {
			violations.Add(1)
		}
	})
	own := t.TempDir()
	x.crashes, x.script, x.agents = filepath.Join(own, "crashes"), filepath.Join(own, "script"), filepath.Join(own, "agents.json")
	if err := os.Mkdir(x.crashes, 0o777); err != nil {
		t.Fatal(err)
	}
	x.on(m)
	x.put("s1", secret[:11])
	x.put("s2", secret[11:])
	x.write(x.agents, `{"agents":{"coder":{"rules":[{"tool":"exec","arg":"command","match":"gated","policy":"ask"}]}}}`)
	x.write(x.script, strings.ReplaceAll(script, "DIR", x.dir))
	var err error
	if x.db, err = store.Open(t.Context(), store.Options{
		URL: x.url, Conns: 2, Writers: 1, TTL: leaseTTL, Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.db.Close)
	session, err := x.db.CreateSession(t.Context(), tenant, "coder", store.NewID())
	if err != nil {
		t.Fatal(err)
	}
	x.session = session.ID
	return x
}

// on lets the trial work on a machine from now on.
func (x *trial) on(m *computer) {
	x.t.Helper()
	x.machine, x.box = m, m.box(x.t, "watch/"+x.dir, 1)
	if err := x.box.Mkdir(x.t.Context(), x.dir, sandbox.MkdirOptions{Parents: true, Mode: 0o777}); err != nil {
		x.t.Fatal(err)
	}
}

// script is a turn with everything in it: three calls at once, a provider that fails, a card, and an answer that comes slowly.
const script = `run: echo x >> DIR/a; cat DIR/s1; sleep 0.2; cat DIR/s2; echo; i=0; while [ $i -lt 30 ]; do echo "line $i of the output"; i=$((i+1)); sleep 0.02; done; echo over >&2
+ run: echo x >> DIR/b; echo b
+ call: write {"path": "DIR/w", "content": "written"}
fail: server
run: echo x >> DIR/gated; echo gated
every: 60ms
say: all of it is done by now and these are words that come one after the other so that whoever watches sees them come
`

// outputs are what its commands write, as the store must have it.
func outputs() map[string]string {
	var long strings.Builder
	long.WriteString("[secret]\n")
	for i := range 30 {
		fmt.Fprintf(&long, "line %d of the output\n", i)
	}
	long.WriteString("over\n")
	return map[string]string{"DIR/a": long.String(), "DIR/b": "b\n", "DIR/gated": "gated\n"}
}

func (x *trial) write(path, text string) {
	x.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trial) submit() {
	x.t.Helper()
	payload, err := driver.EncodeInput(driver.Text("go"))
	if err != nil {
		x.t.Fatal(err)
	}
	if x.work, err = x.db.Submit(x.t.Context(), store.Input{Tenant: tenant, Session: x.session, Key: "1", Payload: payload}); err != nil {
		x.t.Fatal(err)
	}
}

// approves says yes to every card, once the session waits for that.
func (x *trial) approves() {
	ctx, stop := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := x.approveOnce(ctx); err != nil && ctx.Err() == nil {
				x.t.Error(err)
				return
			}
		}
	})
	x.t.Cleanup(func() {
		stop()
		over.Wait()
	})
}

func (x *trial) approveOnce(ctx context.Context) error {
	now, err := x.db.Session(ctx, tenant, x.session)
	if err != nil || now.State != store.SessionParked {
		return err
	}
	cards, err := x.db.Pending(ctx, tenant, uuid.Nil, 10)
	if err != nil {
		return err
	}
	for _, card := range cards {
		_, err := x.db.Decide(ctx, store.Decision{Tenant: tenant, Approval: card.ID, Key: "yes", Approve: true, By: "ann"})
		if decided := new(store.DecidedError); err != nil && !errors.As(err, &decided) {
			return err
		}
	}
	return nil
}

// soon looks until it holds, and ends the test with what when it does not in time.
func (x *trial) soon(what func() string, holds func() bool) {
	x.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		select {
		case <-tick.C:
			if holds() {
				return
			}
		case <-deadline:
			x.t.Fatal(what())
		}
	}
}

func (x *trial) isSettled() bool {
	x.t.Helper()
	if x.work.ID == uuid.Nil {
		return false // it was not admitted yet
	}
	now, err := x.db.Submission(x.t.Context(), tenant, x.work.ID)
	if err != nil {
		x.t.Fatal(err)
	}
	return now.State == store.SubmissionSettled
}

// isIdle: it is settled, and its last owner has given the session up.
func (x *trial) isIdle() bool {
	x.t.Helper()
	if !x.isSettled() {
		return false
	}
	now, err := x.db.Session(x.t.Context(), tenant, x.session)
	if err != nil {
		x.t.Fatal(err)
	}
	return now.State == store.SessionIdle
}

func (x *trial) entries() []journal.Entry {
	x.t.Helper()
	entries, err := x.db.Load(x.t.Context(), tenant, x.session, 0, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	return entries
}

func (x *trial) kinds() []string {
	var all []string
	for _, entry := range x.entries() {
		all = append(all, fmt.Sprintf("%s@%d", entry.Kind, entry.Fence))
	}
	return all
}

// finish lets a last replica end the work, and counts what there is.
func (x *trial) finish() {
	x.t.Helper()
	last := x.start()
	if last.diesOrSettles() {
		x.t.Fatal("the last replica was killed by nobody of ours")
	}
	last.stop()
	x.verify()
	if x.t.Failed() {
		x.t.Logf("entries: %v\nlast replica:\n%s", x.kinds(), last.log.String())
	}
}
