package journaltest

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const week = 7 * 24 * time.Hour

func (t *turn) end() {
	t.Helper()
	t.ok(t.finish())
	if !t.park() {
		t.Fatal("not idle")
	}
}

var retentionCases = []testCase{
	// langchain-ai/langgraphjs#1138, indexnetwork/index#1088: nothing ever goes.
	{name: "old sessions go, with everything of theirs", run: func(w *world) {
		t := w.begin()
		id := t.exec("c1")
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{chunk(id, 0, "out")}))
		t.must(nil, result("c9", good, bytes.Repeat([]byte("large "), 20<<10)))
		t.call("c2", opaque)
		t.card("c2", 1000*time.Hour)
		t.end()
		w.index()
		large := digestOfLast(w, t)
		closed := w.begin()
		closed.end()
		w.ok(w.CloseSession(w.Context(), tenant, closed.id))
		w.db.Elapse(w, week)
		young := w.begin()
		young.end()
		n, err := w.Retain(w.Context(), 5*24*time.Hour, 10)
		if w.ok(err); n != 2 {
			w.Fatalf("%d sessions went, want 2", n)
		}
		for _, id := range []uuid.UUID{t.id, closed.id} {
			_, err = w.Session(w.Context(), tenant, id)
			w.is(err, store.ErrNotFound)
		}
		if w.stdout(id) != "" || len(w.search("hello")) != 0 {
			w.Error("output or index is still there")
		}
		_, err = w.Session(w.Context(), tenant, young.id)
		w.ok(err)
		w.db.Elapse(w, week)
		w.ok(w.Tidy(w.Context()))
		_, err = w.Blob(w.Context(), tenant, large)
		w.is(err, store.ErrNotFound)
	}},
	{name: "what is at work or waits is never old", run: func(w *world) {
		running, parked := w.begin(), w.begin()
		parked.call("c1", opaque)
		parked.card("c1", 10000*time.Hour)
		parked.park()
		ready := w.session()
		w.submit(ready, "k")
		w.db.Elapse(w, 50*week)
		n, err := w.Retain(w.Context(), time.Hour, 10)
		if w.ok(err); n != 0 {
			w.Errorf("%d sessions went", n)
		}
		for _, id := range []uuid.UUID{running.id, parked.id, ready} {
			if len(w.entries(id)) == 0 {
				w.Errorf("session %s is gone", id)
			}
		}
	}},
	{name: "a fork outlives its ancestors", run: func(w *world) {
		t := w.begin()
		t.must(nil, result("c1", good, bytes.Repeat([]byte("large "), 20<<10)), answer("kingfisher"))
		f := t.fork(3)
		f.accept()
		g := f.fork(f.last)
		before := w.entries(g.id)
		t.end()
		f.end()
		w.db.Elapse(w, week)
		n, err := w.Retain(w.Context(), 24*time.Hour, 10)
		if w.ok(err); n != 2 {
			w.Fatalf("%d sessions went, want 2", n)
		}
		w.db.Elapse(w, week)
		w.ok(w.Tidy(w.Context()))
		after := w.entries(g.id)
		if kinds(after) != kinds(before) || !bytes.Equal(after[2].Body.GetToolResult().GetContent(), before[2].Body.GetToolResult().GetContent()) {
			w.Errorf("kinds are %s, were %s", kinds(after), kinds(before))
		}
		now, err := w.Session(w.Context(), tenant, g.id)
		if w.ok(err); now.Parent != f.id {
			w.Errorf("session is %+v", now)
		}
		c := w.claimOne(w, w.kill(), g.id)
		g.claim = c
		g.accept()
		w.index()
		if hits := w.search("large"); len(hits) != 1 || hits[0].Session != g.id {
			w.Errorf("hits are %+v", hits)
		}
	}},
	{name: "erasure leaves a marker and no bytes", run: func(w *world) {
		t := w.begin()
		t.must(nil, result("c1", good, bytes.Repeat([]byte("private "), 20<<10)))
		f := t.fork(3)
		w.index()
		large := digestOfLast(w, t)
		w.ok(w.Erase(w.Context(), tenant, t.id, 3, "asked for"))
		w.ok(w.Erase(w.Context(), tenant, t.id, 3, "asked for"))
		w.is(w.Erase(w.Context(), tenant, t.id, 99, "asked for"), store.ErrNotFound)
		for _, id := range []*turn{t, f} {
			e := w.entries(id.id)[2]
			if e.Kind != journal.KindRedaction || e.Call != "c1" || e.Body.GetRedaction().GetKind() != int32(journal.KindToolResult) {
				w.Errorf("entry is %+v", e)
			}
		}
		if hits := w.search("private"); len(hits) != 0 {
			w.Errorf("hits are %+v", hits)
		}
		_, err := w.Blob(w.Context(), tenant, large)
		w.is(err, store.ErrNotFound)
		w.index()
		if hits := w.search("private"); len(hits) != 0 {
			w.Errorf("indexed again: %+v", hits)
		}
	}},
	{name: "erasure reaches the rows that hold the same", run: func(w *world) {
		t := w.begin()
		t.must(nil, answer("private"))
		t.call("c1", opaque)
		card := t.card("c1", time.Hour)
		_, err := w.Decide(w.Context(), store.Decision{Tenant: tenant, Approval: card, Key: "d", Approve: true, EditedArgs: []byte(`"private"`), Reason: "private"})
		w.ok(err)
		w.ok(t.deliver(card, journalv1.Decision_DECISION_APPROVED))
		id := t.exec("c2")
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{chunk(id, 0, "private")}))
		t.must(nil, result("c2", good, []byte("private")))
		for _, e := range w.entries(t.id) {
			err := w.Erase(w.Context(), tenant, t.id, e.Seq, "asked for")
			if journal.Erasable(e.Kind) {
				w.ok(err)
			} else {
				w.is(err, store.ErrNotErasable)
			}
		}
		submission, err := w.Submission(w.Context(), tenant, t.claim.Submission.ID)
		if w.ok(err); len(submission.Payload) != 0 || w.stdout(id) != "" {
			w.Errorf("the payload is %q, the output %q", submission.Payload, w.stdout(id))
		}
		shown, err := w.Approval(w.Context(), tenant, card)
		if w.ok(err); len(shown.Summary)+len(shown.EditedArgs)+len(shown.Reason) != 0 {
			w.Errorf("the card shows %+v", shown)
		}
	}},
	{name: "a chore is one caller's until it is due again", run: func(w *world) {
		for i, want := range []bool{true, false, false} {
			if mine, err := w.Turn(w.Context(), "sweep", time.Hour); err != nil || mine != want {
				w.Errorf("call %d: %v, %v", i, mine, err)
			}
		}
		if mine, err := w.Turn(w.Context(), "dust", time.Hour); err != nil || !mine {
			w.Errorf("another chore: %v, %v", mine, err)
		}
		w.db.Elapse(w, time.Hour)
		if mine, err := w.Turn(w.Context(), "sweep", time.Hour); err != nil || !mine {
			w.Errorf("an hour later: %v, %v", mine, err)
		}
	}},
	{name: "of replicas that come at once one has the chore, the first time and later", run: func(w *world) {
		replicas := []Store{w.Store, w.db.Open(w, store.Options{}), w.db.Open(w, store.Options{})}
		for round := range 10 {
			var mine atomic.Int64
			var wait sync.WaitGroup
			for i := range 4 * len(replicas) {
				wait.Go(func() {
					got, err := replicas[i%len(replicas)].Turn(w.Context(), "sweep", time.Hour)
					if err != nil {
						w.Error(err)
					}
					if got {
						mine.Add(1)
					}
				})
			}
			if wait.Wait(); mine.Load() != 1 {
				w.Fatalf("round %d: %d have it", round, mine.Load())
			}
			w.db.Elapse(w, time.Hour)
		}
	}},
	{name: "erasure reaches copies", run: func(w *world) {
		t := w.begin()
		t.must(nil, answer(strings.Repeat("private ", 20<<10)))
		deep := t
		for range 35 {
			w.ok(w.Release(w.Context(), deep.claim, 1000*time.Hour))
			deep = deep.fork(deep.last)
		}
		w.index()
		if hits := w.search("private"); len(hits) < 2 {
			w.Errorf("before the erasure: %+v", hits)
		}
		large := digestOfLast(w, t)
		w.ok(w.Erase(w.Context(), tenant, t.id, 3, "asked for"))
		if e := w.entries(deep.id)[2]; e.Kind != journal.KindRedaction {
			w.Errorf("the copy still is a %s", e.Kind)
		}
		if hits := w.search("private"); len(hits) != 0 {
			w.Errorf("hits are %+v", hits)
		}
		_, err := w.Blob(w.Context(), tenant, large)
		w.is(err, store.ErrNotFound)
	}},
	{name: "erasure leaves the same bytes where they are said elsewhere", run: func(w *world) {
		said := answer(strings.Repeat("public ", 20<<10))
		t, other := w.begin(), w.begin()
		t.must(nil, said, said)
		other.must(nil, said)
		large := digestOfLast(w, t)
		w.ok(w.Erase(w.Context(), tenant, t.id, 3, "asked for"))
		w.ok(w.Erase(w.Context(), tenant, other.id, 3, "asked for"))
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted redaction model_completed " {
			w.Errorf("kinds are %s", got)
		}
		w.db.Elapse(w, week)
		w.ok(w.Tidy(w.Context()))
		_, err := w.Blob(w.Context(), tenant, large)
		w.ok(err)
	}},
	{name: "tidying again and again harms nothing", run: func(w *world) {
		t := w.begin()
		for range 3 {
			w.ok(w.Tidy(w.Context()))
		}
		t.must(nil, answer("still here"))
	}},
}

// digestOfLast is the digest of the body of the session's largest entry.
func digestOfLast(w *world, t *turn) []byte {
	w.Helper()
	for _, e := range w.entries(t.id) {
		if _, body, err := journal.Marshal(e.Body); err == nil && len(body) > 64<<10 {
			return digest(string(body))
		}
	}
	w.Fatal("no large entry")
	return nil
}
