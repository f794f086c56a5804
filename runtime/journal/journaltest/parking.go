package journaltest

import (
	"errors"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

var parkingCases = []testCase{
	{name: "a parked session is nobody's and claimed by nobody", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		t.card("c1", 1000*time.Hour)
		if !t.park() {
			w.Fatal("not parked")
		}
		now, err := w.Session(w.Context(), tenant, t.id)
		if w.ok(err); now.State != store.SessionParked {
			w.Errorf("state is %s", now.State)
		}
		w.db.Elapse(w, 100*time.Hour)
		w.claimNone(w, w.executor())
		_, err = w.Park(w.Context(), t.claim)
		w.is(err, store.ErrFenced)
	}},
	{name: "a parked session waits on while inputs queue", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		t.park()
		w.submit(t.id, "text meanwhile")
		w.claimNone(w, w.executor())
		_, err := w.decide(card, "d", false)
		w.ok(err)
		w.claimOne(w, w.executor(), t.id)
	}},
	{name: "cancel and interrupt wake a parked session", run: func(w *world) {
		for _, wake := range []func(t *turn) error{
			func(t *turn) error { return w.Cancel(w.Context(), tenant, t.submission()) },
			func(t *turn) error {
				_, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "stop", Policy: store.PolicyInterrupt})
				return err
			},
		} {
			t := w.begin()
			t.call("c1", opaque)
			t.card("c1", time.Hour)
			t.park()
			w.ok(wake(t))
			if c := w.claimOne(w, w.executor(), t.id); !c.Submission.Cancelled {
				w.Errorf("claim is %+v", c.Submission)
			}
		}
	}},
	{name: "nothing parks over a decision", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		_, err := w.decide(card, "d", true)
		w.ok(err)
		if t.park() {
			w.Fatal("parked over a decision")
		}
		w.ok(t.deliver(card, approved))
		w.ok(t.start("c1", digest("c1")))
	}},
	{name: "nothing idles over a queued input", run: func(w *world) {
		t := w.begin()
		w.submit(t.id, "second")
		w.ok(t.finish())
		if t.park() {
			w.Fatal("idle over an input")
		}
		c, err := w.Begin(w.Context(), t.claim)
		if w.ok(err); c.Submission == nil {
			w.Error("nothing to begin")
		}
	}},
	// The race that loses wake-ups: the owner looks, the decision is committed, the owner parks.
	{name: "a decision at the moment of parking is never lost", run: func(w *world) {
		const rounds = 40
		for range rounds {
			t := w.begin()
			t.call("c1", opaque)
			card := t.card("c1", time.Hour)
			var parked bool
			var parkErr, decideErr error
			var wait sync.WaitGroup
			wait.Go(func() { parked, parkErr = w.Park(w.Context(), t.claim) })
			wait.Go(func() { _, decideErr = w.decide(card, "d", true) })
			wait.Wait()
			w.ok(errors.Join(parkErr, decideErr))
			if parked {
				t.claim = w.claimOne(w, w.executor(), t.id)
			}
			news, err := w.Look(w.Context(), t.claim)
			if w.ok(err); len(news.Decisions) != 1 {
				w.Fatalf("parked %v, news %+v", parked, news)
			}
		}
	}},
	{name: "an input at the moment of going idle is never lost", run: func(w *world) {
		const rounds = 40
		for range rounds {
			t := w.begin()
			w.ok(t.finish())
			var parked bool
			var parkErr error
			var wait sync.WaitGroup
			wait.Go(func() { parked, parkErr = w.Park(w.Context(), t.claim) })
			wait.Go(func() { w.submit(t.id, "second") })
			wait.Wait()
			w.ok(parkErr)
			if parked {
				t.claim = w.claimOne(w, w.executor(), t.id)
				w.ok(w.Release(w.Context(), t.claim, 24*time.Hour))
				continue
			}
			c, err := w.Begin(w.Context(), t.claim)
			if w.ok(err); c.Submission == nil {
				w.Fatal("not idle, and nothing to begin")
			}
		}
	}},
}
