package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const tenant = "tenant-one"

// turn is an owner at work on a session.
type turn struct {
	store *store.Store
	claim store.Claim
	last  int64
}

// begin makes a session with a submission and claims it.
func begin(t testing.TB, s *store.Store) *turn {
	t.Helper()
	id := store.NewID()
	if _, err := s.CreateSession(t.Context(), tenant, "agent", id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), store.Input{Tenant: tenant, Session: id, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Register(t.Context(), "here", "test")
	if err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(), e, 1)
	if err != nil || len(claims) != 1 || claims[0].Session != id {
		t.Fatalf("claims %+v, error %v", claims, err)
	}
	return &turn{store: s, claim: claims[0], last: 1}
}

// survivor is an executor that has lived on while all others died.
func survivor(t testing.TB, db database, s *store.Store) *store.Executor {
	t.Helper()
	e, err := s.Register(t.Context(), "here", "test")
	if err != nil {
		t.Fatal(err)
	}
	db.Elapse(t, 2*time.Hour)
	if err := s.Beat(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// append commits one entry.
func (u *turn) append(ctx context.Context, text string) error {
	_, err := u.store.Commit(ctx, u.claim, store.Step{After: u.last, Entries: []journal.Entry{{Body: delta(text)}}})
	if err == nil {
		u.last++
	}
	return err
}

// appendTwo commits two entries in one step.
func (u *turn) appendTwo(ctx context.Context) error {
	_, err := u.store.Commit(ctx, u.claim, store.Step{After: u.last, Entries: []journal.Entry{{Body: delta("one")}, {Body: delta("two")}}})
	if err == nil {
		u.last += 2
	}
	return err
}

// intend commits a call with its effect.
func (u *turn) intend(ctx context.Context, call string) error {
	_, err := u.store.Commit(ctx, u.claim, store.Step{
		After: u.last,
		Entries: []journal.Entry{{Body: &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: &journalv1.ToolCalled{
			CallId: call, Tool: "tool", Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Policy: journalv1.Policy_POLICY_ALLOW,
		}}}}},
		Intend: []store.Effect{{Call: call, Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Tool: "tool", ArgsSHA256: args(call)}},
	})
	if err == nil {
		u.last++
	}
	return err
}

// start starts an intended call.
func (u *turn) start(ctx context.Context, call string) error {
	_, err := u.store.Commit(ctx, u.claim, store.Step{
		After:   u.last,
		Entries: []journal.Entry{{Body: &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: call}}}}},
		Start:   []store.Start{{Call: call, ArgsSHA256: args(call)}},
	})
	if err == nil {
		u.last++
	}
	return err
}

func args(call string) []byte {
	sum := sha256.Sum256([]byte(call))
	return sum[:]
}

func delta(text string) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: text}}}
}

// texts are the deltas of a session, which must be dense from 1.
func texts(t testing.TB, s *store.Store, session uuid.UUID) []string {
	t.Helper()
	entries, err := s.Load(t.Context(), tenant, session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("session %s: entry %d has seq %d", session, i+1, e.Seq)
		}
		if d := e.Body.GetModelDelta(); d != nil {
			all = append(all, d.GetText())
		}
	}
	return all
}

// eventually looks until it holds, and fails the test when it does not within half a minute.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func fenced(err error) bool { return errors.Is(err, store.ErrFenced) }
