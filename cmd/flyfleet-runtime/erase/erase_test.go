package erase

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// one is the only agent.
type one struct{ agent driver.Agent }

// Agent is driver.Agents'.
func (o one) Agent(string) (driver.Agent, error) { return o.agent, nil }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A whole session is erased: nobody's words are left of it, and its next turn still runs.
func TestErasedSessionHasNoWordsAndGoesOn(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Options{URL: pgtest.Migrated(t), Log: log, TTL: 3 * time.Second})
	ok(t, err)
	defer db.Close()
	m, err := scripted.New(scripted.Config{})
	ok(t, err)
	registry, err := tools.New(nil, tools.Builtin()...)
	ok(t, err)
	places := driver.NewLocal(t.TempDir(), log)
	defer func() { ok(t, places.Close()) }()
	runs, err := driver.New(driver.Options{
		Store: db, Machines: places, Log: log,
		Agents: one{driver.Agent{Agent: turn.Agent{Provider: m.Provider(), Model: "test"}, Model: m, Tools: registry}},
	})
	ok(t, err)
	replica, err := executor.New(t.Context(), executor.Options{Store: db, Runner: runs, Log: log, BeatEvery: 500 * time.Millisecond})
	ok(t, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- replica.Run(ctx) }()
	defer func() { stop(); ok(t, <-over) }()

	session, err := db.CreateSession(t.Context(), "acme", "coder", store.NewID())
	ok(t, err)
	settle := func(text string) {
		t.Helper()
		payload, err := driver.EncodeInput(driver.Text(text))
		ok(t, err)
		made, err := db.Submit(t.Context(), store.Input{Tenant: "acme", Session: session.ID, Key: text, Payload: payload})
		ok(t, err)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(time.Minute); made.State != store.SubmissionSettled; {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatal("no end within a minute")
			}
			made, err = db.Submission(t.Context(), "acme", made.ID)
			ok(t, err)
		}
		if made.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
			t.Fatalf("it ended as %s", made.Outcome)
		}
	}
	settle("run: echo private\nsay: private")

	// What a fork has from its parent is not the fork's.
	before, err := db.Load(t.Context(), "acme", session.ID, 0, 0)
	ok(t, err)
	fork, err := db.Fork(t.Context(), "acme", session.ID, before[len(before)-1].Seq, store.NewID())
	ok(t, err)
	var out bytes.Buffer
	c := Command{Tenant: "acme", Session: fork.ID, Reason: "asked for"}
	ok(t, c.erase(t.Context(), db, &out))
	if out.String() != "erased 0 entries of session "+fork.ID.String()+"\n" {
		t.Errorf("of the fork it says %q", out.String())
	}
	out.Reset()
	c = Command{Tenant: "acme", Session: session.ID, Reason: "asked for"}
	ok(t, c.erase(t.Context(), db, &out))
	if !strings.HasPrefix(out.String(), "erased 4 entries") {
		t.Errorf("it says %q", out.String())
	}
	entries, err := db.Load(t.Context(), "acme", session.ID, 0, 0)
	ok(t, err)
	for _, entry := range entries {
		if strings.Contains(entry.Body.String(), "private") {
			t.Errorf("entry %d, a %s, still says it", entry.Seq, entry.Kind)
		}
	}
	_, err = journal.Fold(entries)
	ok(t, err)
	settle("say: goes on")
}
