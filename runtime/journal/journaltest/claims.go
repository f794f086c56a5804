package journaltest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

var claimCases = []testCase{
	{name: "a session has one owner", run: func(w *world) {
		const sessions, replicas = 20, 6
		for range sessions {
			w.submit(w.session(), "k")
		}
		var mu sync.Mutex
		owners := map[uuid.UUID]int{}
		var wait sync.WaitGroup
		for range replicas {
			e := w.executor()
			wait.Go(func() {
				for {
					claims, err := w.Claim(w.Context(), e, 3)
					if err != nil || len(claims) == 0 {
						if err != nil {
							w.Error(err)
						}
						return
					}
					mu.Lock()
					for _, c := range claims {
						owners[c.Session]++
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		w.claimAll(owners)
		for id, n := range owners {
			if n != 1 {
				w.Errorf("session %s was claimed %d times", id, n)
			}
		}
		if len(owners) != sessions {
			w.Errorf("%d sessions were claimed, want %d", len(owners), sessions)
		}
	}},
	// langchain-ai/langgraph#7417, #7213: a tool of 200 s is no sign of death.
	{name: "an owner that beats keeps its session however long it takes", run: func(w *world) {
		id := w.session()
		w.submit(id, "k")
		e := w.executor()
		t := &turn{world: w, id: id, claim: w.claimOne(w, e, id), last: 1}
		t.accept()
		other := w.executor()
		for range 5 {
			w.db.Elapse(w, time.Hour)
			w.ok(w.Beat(w.Context(), e))
			w.ok(w.Beat(w.Context(), other))
			w.claimNone(w, other)
		}
		t.must(nil, answer("still here"))
	}},
	// riverqueue/river#1258, #682: a killed pod's jobs stay "running" for hours.
	{name: "the session of a dead owner is claimed at once", run: func(w *world) {
		t := w.begin()
		next := t.takeOver()
		if next.claim.Fence <= t.claim.Fence || next.claim.Submission == nil || next.claim.Submission.ID != t.submission() {
			w.Errorf("taken over as %+v", next.claim)
		}
	}},
	{name: "who starts after a silence judges nobody at once", run: func(w *world) {
		suspect := w.begin().takeOver()
		running := w.begin()
		w.db.Elapse(w, time.Hour) // it may be the database that was away
		e := w.executor()
		for range 3 {
			w.claimNone(w, e)
			w.db.Elapse(w, 3*time.Second)
			w.ok(w.Beat(w.Context(), e))
		}
		running.must(nil, answer("still here"))
		suspect.must(nil, answer("still here"))
		claims, err := w.Claim(w.Context(), e, 10)
		if w.ok(err); len(claims) != 2 {
			w.Errorf("claims after three fifths of a lease: %+v", claims)
		}
	}},
	{name: "who is killed and started again takes over as soon as the lease ends", run: func(w *world) {
		t := w.begin()
		e := w.executor()
		for range 5 {
			w.claimNone(w, e)
			w.db.Elapse(w, 3*time.Second)
			w.ok(w.Beat(w.Context(), e))
		}
		w.claimOne(w, e, t.id)
	}},
	// dbos-inc/dbos-transact-py#716, #804, #742: a restarted process with its old id believes it still owns.
	{name: "a restarted replica is somebody else", run: func(w *world) {
		a, b := w.executor(), w.executor()
		if a.ID == b.ID {
			w.Error("two executors have one id")
		}
	}},
	{name: "a takeover counts an attempt and a release does not", run: func(w *world) {
		t := w.begin()
		for want := 1; want <= 3; want++ {
			t = t.takeOver()
			if t.claim.Attempts != want {
				w.Fatalf("takeover %d counts %d attempts", want, t.claim.Attempts)
			}
			w.ok(w.Release(w.Context(), t.claim, 0))
			t.claim = w.claimOne(w, w.executor(), t.id)
			if t.claim.Attempts != want || t.claim.TookOver {
				w.Fatalf("after a release: %+v", t.claim)
			}
		}
	}},
	// openclaw/openclaw#124941, vectorize-io/hindsight#2675: a turn that kills its process, for ever.
	{name: "each death over a submission is counted, also the sixth, and the queue goes on", run: func(w *world) {
		t := w.begin()
		next := w.submit(t.id, "next")
		for died := 1; died <= 6; died++ {
			if t = t.takeOver(); t.claim.Attempts != died {
				w.Fatalf("death %d counts %d attempts", died, t.claim.Attempts)
			}
		}
		w.ok(t.finish())
		c, err := w.Begin(w.Context(), t.claim)
		if w.ok(err); c.Attempts != 0 || c.Submission.ID != next.ID {
			w.Errorf("next is %+v", c)
		}
	}},
	// johanhaleby/occurrent#659, mlflow/mlflow#25199: a computer's clock is half a minute ahead.
	{name: "a wrong clock of a replica kills nobody", run: func(w *world) {
		t := w.begin()
		ahead := w.db.Open(w, store.Options{Now: func() time.Time { return time.Now().Add(time.Hour) }})
		e, err := ahead.Register(w.Context(), "ahead", "v")
		w.ok(err)
		w.claimNone(ahead, e)
		t.must(nil, answer("still here"))
	}},
	{name: "what was released for later is claimed later", run: func(w *world) {
		t := w.begin()
		w.ok(w.Release(w.Context(), t.claim, time.Minute))
		e := w.executor()
		w.claimNone(w, e)
		w.db.Elapse(w, 2*time.Minute)
		_, err := w.Claim(w.Context(), e, 10)
		w.is(err, store.ErrLapsed) // it has not beaten for two minutes
		w.ok(w.Beat(w.Context(), e))
		w.claimOne(w, e, t.id)
	}},
	{name: "a replica that has not beaten lately starts nothing", run: func(w *world) {
		var mu sync.Mutex
		now := time.Now()
		clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
		s := w.db.Open(w, store.Options{Now: clock})
		w.Store = s
		t := w.begin()
		t.call("c1", journalv1.EffectClass_EFFECT_CLASS_OPAQUE)
		mu.Lock()
		now = now.Add(13 * time.Second)
		mu.Unlock()
		if t.claim.Trusted() {
			w.Error("trusted 13 s after the last beat")
		}
		w.is(t.start("c1", digest("c1")), store.ErrLapsed)
		t.must(nil, answer("it may still write: the fence decides"))
	}},
	{name: "a tenant runs no more sessions than its cap", options: store.Options{TenantCap: 3}, run: func(w *world) {
		for range 8 {
			w.submit(w.session(), "k")
		}
		id := store.NewID()
		_, err := w.CreateSession(w.Context(), "small", "agent", id)
		w.ok(err)
		_, err = w.Submit(w.Context(), store.Input{Tenant: "small", Session: id, Key: "k"})
		w.ok(err)
		var mu sync.Mutex
		var all []store.Claim
		var wait sync.WaitGroup
		for range 4 {
			e := w.executor()
			wait.Go(func() {
				claims, err := w.Claim(w.Context(), e, 2)
				if err != nil {
					w.Error(err)
				}
				mu.Lock()
				all = append(all, claims...)
				mu.Unlock()
			})
		}
		wait.Wait()
		running := map[string]int{}
		for _, c := range all {
			running[c.Tenant]++
		}
		if running[tenant] != 3 || running["small"] != 1 {
			w.Fatalf("running: %v", running)
		}
		// One that ends makes room.
		for _, c := range all {
			if c.Tenant == tenant {
				w.ok(w.Release(w.Context(), c, time.Hour))
				break
			}
		}
		claims, err := w.Claim(w.Context(), w.executor(), 10)
		if w.ok(err); len(claims) != 1 {
			w.Errorf("%d claims after one ended, want 1", len(claims))
		}
	}},
	{name: "a deadline stands still while parked", run: func(w *world) {
		id := w.session()
		_, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: id, Key: "k", TimeLimit: 10 * time.Hour})
		w.ok(err)
		w.db.Elapse(w, 24*time.Hour) // in the queue: no time counts
		t := &turn{world: w, id: id, claim: w.claimOne(w, w.executor(), id), last: 1}
		t.accept()
		t.call("c1", journalv1.EffectClass_EFFECT_CLASS_OPAQUE)
		card := t.card("c1", 100*time.Hour)
		w.db.Elapse(w, time.Hour)
		if !t.park() {
			w.Fatal("not parked")
		}
		w.db.Elapse(w, 50*time.Hour)
		_, err = w.Decide(w.Context(), store.Decision{Tenant: tenant, Approval: card, Key: "d", Approve: true})
		w.ok(err)
		c := w.claimOne(w, w.executor(), id)
		if left := c.Submission.Remaining; left < 8*time.Hour || left > 9*time.Hour {
			w.Errorf("remaining is %s, want nearly 9h", left)
		}
	}},
	{name: "cancel is a row that any owner finds", run: func(w *world) {
		t := w.begin()
		other := w.db.Open(w, store.Options{})
		w.ok(other.Cancel(w.Context(), tenant, t.submission()))
		w.ok(other.Cancel(w.Context(), tenant, t.submission()))
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); !news.Cancelled {
			w.Error("the owner does not see the cancel")
		}
		if t.park() {
			w.Error("parked over a cancel")
		}
		if t = t.takeOver(); !t.claim.Submission.Cancelled {
			w.Error("the next owner does not see the cancel")
		}
		w.ok(t.finish())
		w.ok(other.Cancel(w.Context(), tenant, t.submission()))
	}},
	{name: "news cut a back-off short", run: func(w *world) {
		t := w.begin()
		w.ok(w.Release(w.Context(), t.claim, time.Hour))
		w.submit(t.id, "another") // an input waits for the back-off
		w.claimNone(w, w.executor())
		w.ok(w.Cancel(w.Context(), tenant, t.submission()))
		t.claim = w.claimOne(w, w.executor(), t.id)
		w.ok(w.Release(w.Context(), t.claim, time.Hour)) // and the cancel is still there
		w.claimOne(w, w.executor(), t.id)
	}},
	{name: "what is ready is told to watchers on every replica", run: func(w *world) {
		other := w.db.Open(w, store.Options{})
		look, stop := other.Notifier().WatchReady()
		defer stop()
		id := w.session()
		w.submit(id, "k")
		e := w.executor()
		ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
		defer cancel()
		for {
			claims, err := other.Claim(ctx, e, 1)
			w.ok(err)
			if len(claims) == 1 {
				return
			}
			select {
			case <-look:
			case <-ctx.Done():
				w.Fatal("nobody told")
			}
		}
	}},
}

// claimAll claims what is left: a claim that others were in the way of may have been empty.
func (w *world) claimAll(owners map[uuid.UUID]int) {
	w.Helper()
	e := w.executor()
	for {
		claims, err := w.Claim(w.Context(), e, 10)
		w.ok(err)
		if len(claims) == 0 {
			return
		}
		for _, c := range claims {
			owners[c.Session]++
		}
	}
}
