package journaltest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const approved = journalv1.Decision_DECISION_APPROVED

func (w *world) decide(card uuid.UUID, key string, approve bool) (store.Approval, error) {
	return w.Decide(w.Context(), store.Decision{Tenant: tenant, Approval: card, Key: key, Approve: approve, By: "somebody"})
}

var approvalCases = []testCase{
	{name: "a gated call starts by its approval only, once", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		w.is(t.start("c1", digest("c1")), store.ErrNotStarted)
		_, err := w.decide(card, "d", true)
		w.ok(err)
		w.ok(t.deliver(card, approved))
		w.is(t.start("c1", digest("other arguments than were shown")), store.ErrNotStarted)
		w.ok(t.start("c1", digest("c1")))
		// andrewyng/openworker#443: killed before the result; the approval is used up.
		next := t.takeOver()
		w.is(next.start("c1", digest("c1")), store.ErrNotStarted)
		now, err := w.Approval(w.Context(), tenant, card)
		if w.ok(err); !now.Used || now.By != "somebody" {
			w.Errorf("approval is %+v", now)
		}
	}},
	{name: "edited arguments are those that may run", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		edited := []byte(`{"to":"somebody else"}`)
		_, err := w.Decide(w.Context(), store.Decision{Tenant: tenant, Approval: card, Key: "d", Approve: true, EditedArgs: edited})
		w.ok(err)
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); len(news.Decisions) != 1 || string(news.Decisions[0].EditedArgs) != string(edited) {
			w.Fatalf("news are %+v", news)
		}
		w.is(t.start("c1", digest("c1")), store.ErrNotStarted)
		w.ok(t.start("c1", digest(string(edited))))
	}},
	{name: "what was denied does not start", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		_, err := w.decide(card, "d", false)
		w.ok(err)
		w.ok(t.deliver(card, journalv1.Decision_DECISION_DENIED))
		w.is(t.start("c1", digest("c1")), store.ErrNotStarted)
		w.ok(t.settle("c1", journalv1.ToolOutcome_TOOL_OUTCOME_DENIED))
	}},
	// Agenta-AI/agenta#5592: the decision is taken, and the start of its turn fails.
	{name: "a decision outlives every owner until it is used", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", 1000*time.Hour)
		if !t.park() {
			w.Fatal("not parked")
		}
		_, err := w.decide(card, "d", true)
		w.ok(err)
		t.claim = w.claimOne(w, w.executor(), t.id)
		for range 3 { // owners that die before they have done anything
			t = t.takeOver()
		}
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); len(news.Decisions) != 1 || news.Decisions[0].State != store.ApprovalApproved {
			w.Fatalf("news are %+v", news)
		}
		w.ok(t.deliver(card, approved))
		w.isState(t.deliver(card, approved))
		t = t.takeOver() // delivered, not started
		w.ok(t.start("c1", digest("c1")))
	}},
	// agentscope-ai/agentscope#2227: two replicas take one trigger.
	{name: "one decision wakes one owner", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		t.park()
		_, err := w.decide(card, "d", true)
		w.ok(err)
		var got atomic.Int32
		var wait sync.WaitGroup
		for range 6 {
			e := w.executor()
			wait.Go(func() {
				claims, err := w.Claim(w.Context(), e, 5)
				if err != nil {
					w.Error(err)
				}
				got.Add(int32(len(claims)))
			})
		}
		wait.Wait()
		if got.Load() != 1 {
			w.Errorf("%d owners, want 1", got.Load())
		}
	}},
	{name: "of two decisions the first holds", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		first, err := w.decide(card, "key", false)
		w.ok(err)
		again, err := w.decide(card, "key", false)
		if w.ok(err); again.State != first.State || again.ID != card {
			w.Errorf("again gives %+v", again)
		}
		for key, approve := range map[string]bool{"key": true, "another": false} {
			_, err = w.decide(card, key, approve)
			if before := new(store.DecidedError); !errors.As(err, &before) || before.Approval.State != store.ApprovalDenied {
				w.Errorf("error is %v", err)
			}
		}
		_, err = w.Decide(w.Context(), store.Decision{Tenant: "another", Approval: card, Key: "key"})
		w.is(err, store.ErrNotFound)
	}},
	{name: "two people at once: one decides", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		var won atomic.Int32
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				if _, err := w.decide(card, string(rune('a'+i)), i%2 == 0); err == nil {
					won.Add(1)
				}
			})
		}
		wait.Wait()
		if won.Load() != 1 {
			w.Errorf("%d decisions, want 1", won.Load())
		}
	}},
	// letta-ai/lettabot#127, #479: a card that nobody answers any more.
	{name: "an open card expires by the database's clock", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", 2*time.Hour)
		t.park()
		n, err := w.ExpireApprovals(w.Context(), 10)
		if w.ok(err); n != 0 {
			w.Error("expired before its time")
		}
		w.db.Elapse(w, 3*time.Hour)
		_, err = w.decide(card, "late", true)
		w.is(err, store.ErrExpired)
		_, err = w.decide(card, "late", true)
		w.is(err, store.ErrExpired)
		t.claim = w.claimOne(w, w.executor(), t.id)
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); len(news.Decisions) != 1 || news.Decisions[0].State != store.ApprovalExpired {
			w.Errorf("news are %+v", news)
		}
		w.is(t.start("c1", digest("c1")), store.ErrNotStarted)
	}},
	{name: "the sweep wakes the session of an expired card", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		t.card("c1", 2*time.Hour)
		t.park()
		w.db.Elapse(w, 3*time.Hour)
		n, err := w.ExpireApprovals(w.Context(), 10)
		if w.ok(err); n != 1 {
			w.Errorf("%d sessions woken, want 1", n)
		}
		w.claimOne(w, w.executor(), t.id)
	}},
	{name: "the end closes what is open", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		w.ok(t.finish())
		_, err := w.decide(card, "late", true)
		if before := new(store.DecidedError); !errors.As(err, &before) || before.Approval.State != store.ApprovalCancelled {
			w.Errorf("error is %v", err)
		}
		if !t.park() {
			w.Error("not idle")
		}
	}},
	// omnigent-ai/omnigent#5144, NeoLabs-Systems/NeoAgent#86: a restart while a card is open.
	{name: "open cards are rows", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		other := w.db.Open(w, store.Options{})
		open, err := other.Pending(w.Context(), tenant, uuid.Nil, 10)
		if w.ok(err); len(open) != 1 || open[0].ID != card || string(open[0].Summary) != "run c1" {
			w.Errorf("open cards are %+v", open)
		}
		_, err = w.decide(card, "d", true)
		w.ok(err)
		open, err = other.Pending(w.Context(), tenant, uuid.Nil, 10)
		if w.ok(err); len(open) != 0 {
			w.Errorf("open cards are %+v", open)
		}
	}},
}
