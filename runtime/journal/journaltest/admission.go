package journaltest

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

var admissionCases = []testCase{
	{name: "a repeated create is the same session", run: func(w *world) {
		id := w.session()
		again, err := w.CreateSession(w.Context(), tenant, "agent", id)
		if w.ok(err); again.ID != id || len(w.entries(id)) != 1 {
			w.Errorf("created again: %+v, entries %s", again, kinds(w.entries(id)))
		}
		_, err = w.CreateSession(w.Context(), tenant, "another agent", id)
		w.is(err, store.ErrConflict)
		_, err = w.CreateSession(w.Context(), "another tenant", "agent", id)
		w.is(err, store.ErrNotFound)
	}},
	// a2aproject/A2A#928: the connection is cut before the reply, and the client posts again.
	{name: "a repeated submit is one submission", run: func(w *world) {
		id := w.session()
		first := w.submit(id, "k")
		if again := w.submit(id, "k"); again.ID != first.ID {
			w.Errorf("the same key made %s and %s", first.ID, again.ID)
		}
		_, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: id, Key: "k", Payload: []byte("another payload")})
		w.is(err, store.ErrConflict)
		if all := get(w, first, nil); all.Ordinal != 1 {
			w.Errorf("ordinal is %d", all.Ordinal)
		}
		all, err := w.Submissions(w.Context(), tenant, id, 0, 10)
		if w.ok(err); len(all) != 1 {
			w.Errorf("%d submissions, want 1", len(all))
		}
	}},
	{name: "a repeated submit at the same moment is one submission", run: func(w *world) {
		id := w.session()
		var made [8]uuid.UUID
		var wait sync.WaitGroup
		for i := range made {
			wait.Go(func() {
				u, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: id, Key: "k", Payload: []byte("p")})
				if err != nil {
					w.Error(err)
				}
				made[i] = u.ID
			})
		}
		wait.Wait()
		for _, id := range made {
			if id != made[0] {
				w.Errorf("the same key made %v", made)
			}
		}
	}},
	// NousResearch/hermes-agent#64934, strands-agents/harness-sdk#1176: a second message during a slow turn.
	{name: "one runs and the rest wait in order", run: func(w *world) {
		t := w.begin()
		second, third := w.submit(t.id, "second"), w.submit(t.id, "third")
		w.claimNone(w, w.executor())
		again, err := w.Begin(w.Context(), t.claim)
		if w.ok(err); again.Submission.ID != t.submission() {
			w.Fatalf("a second submission began beside the first: %+v", again.Submission)
		}
		for _, want := range []store.Submission{second, third} {
			w.ok(t.finish())
			t.claim, err = w.Begin(w.Context(), t.claim)
			if w.ok(err); t.claim.Submission == nil || t.claim.Submission.ID != want.ID {
				w.Fatalf("next is %+v, want ordinal %d", t.claim.Submission, want.Ordinal)
			}
			t.accept()
		}
		w.ok(t.finish())
		if !t.park() {
			w.Error("the session is not idle")
		}
	}},
	// anomalyco/opencode#46102, Fergana-Labs/stash#1077: two messages in one millisecond.
	{name: "inputs of one moment are ordered by ordinal", run: func(w *world) {
		id := w.session()
		var wait sync.WaitGroup
		for i := range 10 {
			wait.Go(func() { w.submit(id, string(rune('a'+i))) })
		}
		wait.Wait()
		all, err := w.Submissions(w.Context(), tenant, id, 0, 100)
		w.ok(err)
		for i, u := range all {
			if u.Ordinal != int64(i+1) {
				w.Errorf("submission %d has ordinal %d", i, u.Ordinal)
			}
		}
		if len(all) != 10 {
			w.Errorf("%d submissions, want 10", len(all))
		}
	}},
	{name: "reject refuses while something is open", run: func(w *world) {
		t := w.begin()
		in := store.Input{Tenant: tenant, Session: t.id, Key: "r", Policy: store.PolicyReject}
		_, err := w.Submit(w.Context(), in)
		w.is(err, store.ErrBusy)
		w.ok(t.finish())
		_, err = w.Submit(w.Context(), in)
		w.ok(err)
	}},
	{name: "interrupt cancels what came before", run: func(w *world) {
		t := w.begin()
		queued := w.submit(t.id, "queued")
		last, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "i", Policy: store.PolicyInterrupt})
		w.ok(err)
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); !news.Cancelled {
			w.Error("the running submission is not cancelled")
		}
		w.ok(t.finish())
		t.claim, err = w.Begin(w.Context(), t.claim)
		if w.ok(err); t.claim.Submission.ID != queued.ID || !t.claim.Submission.Cancelled {
			w.Errorf("next is %+v, want the queued one, cancelled", t.claim.Submission)
		}
		t.accept()
		w.ok(t.finish())
		t.claim, err = w.Begin(w.Context(), t.claim)
		if w.ok(err); t.claim.Submission.ID != last.ID || t.claim.Submission.Cancelled {
			w.Errorf("next is %+v, want the interrupting one", t.claim.Submission)
		}
	}},
	{name: "an answer wakes a session that waits for a person, and is not parked over", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		t.card("c1", time.Hour)
		if !t.park() {
			w.Fatal("not parked")
		}
		queued, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "q"})
		w.ok(err)
		if now, err := w.Session(w.Context(), tenant, t.id); err != nil || now.State != store.SessionParked {
			w.Errorf("a queued one made it %s, %v", now.State, err)
		}
		answer, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "a", Policy: store.PolicyAnswer})
		w.ok(err)
		t.claim = w.claimOne(w, w.executor(), t.id)
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); !news.Answered || len(news.Joining) != 0 {
			w.Fatalf("news are %+v", news)
		}
		if t.park() {
			w.Fatal("parked over an answer")
		}
		w.ok(w.Cancel(w.Context(), tenant, answer.ID))
		if news, err := w.Look(w.Context(), t.claim); err != nil || news.Answered {
			w.Errorf("a cancelled one answers: %+v, %v", news, err)
		}
		if !t.park() {
			w.Error("not parked over a cancelled answer")
		}
		if queued.Ordinal >= answer.Ordinal {
			w.Error("the answer overtook")
		}
	}},
	{name: "join becomes part of the running turn", run: func(w *world) {
		t := w.begin()
		joining, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "j", Policy: store.PolicyJoin})
		w.ok(err)
		if t.park() {
			w.Fatal("parked over an input that wants to join")
		}
		news, err := w.Look(w.Context(), t.claim)
		if w.ok(err); len(news.Joining) != 1 || news.Joining[0].ID != joining.ID {
			w.Fatalf("news are %+v", news)
		}
		t.must(func(s *store.Step) { s.Accept = []store.Accept{{Submission: joining.ID}} }, input(2, "and this"))
		w.ok(t.finish())
		now, err := w.Submission(w.Context(), tenant, joining.ID)
		if w.ok(err); now.State != store.SubmissionSettled {
			w.Errorf("the joined one is %s", now.State)
		}
	}},
	{name: "credentials are the owner's and die with the work", run: func(w *world) {
		id := w.session()
		u, err := w.Submit(w.Context(), store.Input{
			Tenant: tenant, Session: id, Key: "k",
			Credentials: &store.Sealed{KeyID: "key-1", Data: []byte{0, 1, 2}, ExpiresIn: 2 * time.Hour},
		})
		w.ok(err)
		t := &turn{world: w, id: id, claim: w.claimOne(w, w.executor(), id), last: 1}
		sealed, err := w.Credentials(w.Context(), t.claim, u.ID)
		if w.ok(err); sealed.KeyID != "key-1" || string(sealed.Data) != "\x00\x01\x02" {
			w.Errorf("credentials are %+v", sealed)
		}
		old := *t
		t = t.takeOver()
		_, err = w.Credentials(w.Context(), old.claim, u.ID)
		w.is(err, store.ErrFenced)
		_, err = w.Credentials(w.Context(), t.claim, u.ID)
		w.ok(err)
		w.db.Elapse(w, 2*time.Hour)
		_, err = w.Credentials(w.Context(), t.claim, u.ID)
		w.is(err, store.ErrExpired)
		t.accept()
		w.ok(t.finish())
		_, err = w.Credentials(w.Context(), t.claim, u.ID)
		w.is(err, store.ErrNotFound)
	}},
	{name: "a closed session takes nothing", run: func(w *world) {
		t := w.begin()
		w.is(w.CloseSession(w.Context(), tenant, t.id), store.ErrBusy)
		w.ok(t.finish())
		t.park()
		w.ok(w.CloseSession(w.Context(), tenant, t.id))
		w.ok(w.CloseSession(w.Context(), tenant, t.id))
		_, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: t.id, Key: "late"})
		w.is(err, store.ErrClosed)
	}},
	{name: "tenants do not see each other", run: func(w *world) {
		t := w.begin()
		_, err := w.Load(w.Context(), "another", t.id, 0, 0)
		w.is(err, store.ErrNotFound)
		_, err = w.Submit(w.Context(), store.Input{Tenant: "another", Session: t.id, Key: "k"})
		w.is(err, store.ErrNotFound)
		_, err = w.Submission(w.Context(), "another", t.submission())
		w.is(err, store.ErrNotFound)
		w.is(w.Cancel(w.Context(), "another", t.submission()), store.ErrNotFound)
		_, err = w.Fork(w.Context(), "another", t.id, 1, store.NewID())
		w.is(err, store.ErrNotFound)
		w.is(w.Erase(w.Context(), "another", t.id, 1, "law"), store.ErrNotFound)
	}},
	{name: "an attachment must be stored before", run: func(w *world) {
		id := w.session()
		_, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: id, Key: "k", Blobs: [][]byte{digest("nothing")}})
		w.is(err, store.ErrNotFound)
		sha, err := w.PutBlob(w.Context(), tenant, "text/plain", []byte("a file"))
		w.ok(err)
		_, err = w.Submit(w.Context(), store.Input{Tenant: tenant, Session: id, Key: "k", Blobs: [][]byte{sha, sha}})
		w.ok(err)
		w.db.Elapse(w, 100*time.Hour)
		w.ok(w.Tidy(w.Context()))
		data, err := w.Blob(w.Context(), tenant, sha)
		if w.ok(err); string(data) != "a file" {
			w.Errorf("blob is %q", data)
		}
		_, err = w.Blob(w.Context(), "another", sha)
		w.is(err, store.ErrNotFound)
	}},
}
