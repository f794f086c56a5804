package driver_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

const tenant = "acme"

// rig is a database with replicas that work on this computer.
type rig struct {
	t   *testing.T
	url string
	// store is a client's, apart from the replicas'.
	store  *store.Store
	places *driver.Local
	dir    string
	agent  driver.Agent
	// change alters the drivers that replicas get.
	change func(*driver.Options)
	// open changes the replicas' stores.
	open func(*store.Options)
}

// newRig makes a rig whose model answers from the script; "" takes the last input as its script.
func newRig(t *testing.T, script string, more ...tools.Tool) *rig {
	t.Helper()
	return newRigAsking(t, scriptedModel(t, script), nil, more...)
}

func scriptedModel(t *testing.T, script string) model.Model {
	t.Helper()
	m, err := scripted.New(scripted.Config{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newRigAsking(t *testing.T, m model.Model, rules []tools.Rule, more ...tools.Tool) *rig {
	t.Helper()
	registry, err := tools.New(rules, append(tools.Builtin(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, url: pgtest.Migrated(t), dir: t.TempDir(), agent: driver.Agent{
		Agent: turn.Agent{Provider: m.Provider(), Model: "test", System: "be good"}, Model: m, Tools: registry,
	}}
	for _, tool := range registry.Tools() {
		r.agent.Agent.Tools = append(r.agent.Agent.Tools, model.ToolDef{Name: tool.Name, Description: tool.Description, Schema: tool.Schema})
	}
	r.store = r.connect()
	r.places = driver.NewLocal(r.dir, quiet())
	t.Cleanup(func() {
		if err := r.places.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func quiet() *slog.Logger {
	if os.Getenv("FLYFLEET_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func (r *rig) connect() *store.Store {
	r.t.Helper()
	o := store.Options{URL: r.url, Log: quiet(), TTL: 3 * time.Second}
	if r.open != nil {
		r.open(&o)
	}
	s, err := store.Open(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s
}

// Agent is the rig's, whatever the name.
func (r *rig) Agent(string) (driver.Agent, error) { return r.agent, nil }

// driver is a replica's.
func (r *rig) driver(s *store.Store) *driver.Driver {
	r.t.Helper()
	o := driver.Options{Store: s, Agents: r, Machines: r.places, Log: quiet()}
	if r.change != nil {
		r.change(&o)
	}
	d, err := driver.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// replica runs one until the test ends, or stop is called, which waits for its end.
func (r *rig) replica() (stop func()) {
	r.t.Helper()
	s := r.connect()
	e, err := executor.New(r.t.Context(), executor.Options{
		Store: s, Runner: r.driver(s), Log: quiet(), BeatEvery: 200 * time.Millisecond, SweepEvery: 200 * time.Millisecond, DrainTime: 20 * time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-over; err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(stop)
	return stop
}

// session makes one.
func (r *rig) session() uuid.UUID {
	r.t.Helper()
	made, err := r.store.CreateSession(r.t.Context(), tenant, "coder", store.NewID())
	if err != nil {
		r.t.Fatal(err)
	}
	return made.ID
}

// submit sends an input.
func (r *rig) submit(session uuid.UUID, text string, changes ...func(*store.Input)) store.Submission {
	r.t.Helper()
	payload, err := driver.EncodeInput(driver.Text(text))
	if err != nil {
		r.t.Fatal(err)
	}
	in := store.Input{Tenant: tenant, Session: session, Key: uuid.NewString(), Payload: payload}
	for _, change := range changes {
		change(&in)
	}
	made, err := r.store.Submit(r.t.Context(), in)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// settled waits for the end of a submission.
func (r *rig) settled(id uuid.UUID) store.Submission {
	r.t.Helper()
	var now store.Submission
	r.soon("the submission settles", func() bool {
		var err error
		if now, err = r.store.Submission(r.t.Context(), tenant, id); err != nil {
			r.t.Fatal(err)
		}
		return now.State == store.SubmissionSettled
	})
	return now
}

// soon polls until something holds.
func (r *rig) soon(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("not within 60 s: %s", what)
		}
	}
}

// history is the session's journal, which must fold.
func (r *rig) history(session uuid.UUID) ([]journal.Entry, *journal.State) {
	r.t.Helper()
	entries, err := r.store.Load(r.t.Context(), tenant, session, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	state := new(journal.State)
	for _, entry := range entries {
		if err := state.Apply(entry); err != nil {
			r.t.Fatalf("%v\n%v", err, kinds(entries))
		}
	}
	return entries, state
}

func kinds(entries []journal.Entry) []string {
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Kind.String())
	}
	return all
}

// count says how many entries of a kind there are.
func count(entries []journal.Entry, kind journal.Kind) int {
	n := 0
	for _, entry := range entries {
		if entry.Kind == kind {
			n++
		}
	}
	return n
}

// results are the contents of a session's results, in the order of their calls.
func results(state *journal.State) []string {
	var all []string
	for _, item := range state.Conversation {
		if item.Answer == nil {
			continue
		}
		for _, id := range item.Answer.Calls {
			if result := state.Calls[id].Result; result != nil {
				all = append(all, string(result.Content))
			}
		}
	}
	return all
}

// lines are those of a file in the session's workspace.
func (r *rig) file(session uuid.UUID, name string) string {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, session.String(), name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(content)
}

const completed = journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED
