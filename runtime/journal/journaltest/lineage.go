package journaltest

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// grow adds n answers to a turn.
func (t *turn) grow(n int) {
	t.Helper()
	for i := range n {
		t.must(nil, answer(fmt.Sprintf("answer %d of %s", i, t.id)))
	}
}

// fork cuts the turn's session and gives a turn on the fork.
func (t *turn) fork(seq int64) *turn {
	t.Helper()
	id := store.NewID()
	made, err := t.Fork(t.Context(), tenant, t.id, seq, id)
	t.ok(err)
	if made.Parent != t.id || made.ParentSeq != seq || made.Agent != "agent" {
		t.Errorf("fork is %+v", made)
	}
	u := t.submit(id, "first")
	f := &turn{world: t.world, id: id, last: seq + 1}
	f.claim = t.claimOne(t, t.executor(), id)
	if f.claim.Submission.ID != u.ID {
		t.Errorf("the fork works on %+v", f.claim.Submission)
	}
	return f
}

var lineageCases = []testCase{
	{name: "a fork reads its parent up to the cut", run: func(w *world) {
		t := w.begin()
		t.grow(5)
		f := t.fork(4)
		t.grow(2)
		f.accept()
		f.grow(1)
		all := w.entries(f.id)
		if got := kinds(all); got != "session_created input_accepted model_completed model_completed session_forked input_accepted model_completed " {
			w.Errorf("kinds are %s", got)
		}
		if all[3].Session != t.id || all[4].Session != f.id || all[4].Body.GetSessionForked().GetParentSeq() != 4 {
			w.Errorf("entries are %+v", all[3:5])
		}
		if n := len(w.entries(t.id)); n != 9 {
			w.Errorf("the parent has %d entries, want 9", n)
		}
		some, err := w.Load(w.Context(), tenant, f.id, 3, 2)
		if w.ok(err); len(some) != 2 || some[0].Seq != 4 || some[1].Seq != 5 {
			w.Errorf("after 3: %s", kinds(some))
		}
	}},
	{name: "a fork may be cut above its own begin", run: func(w *world) {
		t := w.begin()
		t.grow(5)
		f := t.fork(5)
		f.accept()
		g := f.fork(3)
		all := w.entries(g.id)
		if got := kinds(all); got != "session_created input_accepted model_completed session_forked " {
			w.Errorf("kinds are %s", got)
		}
	}},
	{name: "a cut that is not there is refused", run: func(w *world) {
		t := w.begin()
		for _, seq := range []int64{0, -1, 3, 99} {
			_, err := w.Fork(w.Context(), tenant, t.id, seq, store.NewID())
			w.is(err, store.ErrNotFound)
		}
	}},
	{name: "a repeated fork is the same session", run: func(w *world) {
		t := w.begin()
		id := store.NewID()
		for range 2 {
			_, err := w.Fork(w.Context(), tenant, t.id, 2, id)
			w.ok(err)
		}
		_, err := w.Fork(w.Context(), tenant, t.id, 1, id)
		w.is(err, store.ErrConflict)
	}},
	{name: "a fork inherits entries and nothing else", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		t.card("c1", 1000000)
		f := t.fork(t.last)
		f.accept()
		w.is(f.start("c1", digest("c1")), store.ErrNotStarted)
		news, err := w.Look(w.Context(), f.claim)
		if w.ok(err); len(news.Decisions) != 0 {
			w.Errorf("news are %+v", news)
		}
	}},
	{name: "deep forks read like shallow ones", run: func(w *world) {
		t := w.begin()
		t.grow(1)
		want := []string{}
		for _, e := range w.entries(t.id) {
			want = append(want, e.Kind.String())
		}
		for range 40 {
			w.ok(w.Release(w.Context(), t.claim, 1000000000000))
			t = t.fork(t.last)
			t.must(func(s *store.Step) { s.Accept = []store.Accept{{Submission: t.submission()}} },
				input(1, "deep"), result("c", journalv1.ToolOutcome_TOOL_OUTCOME_OK, make([]byte, 70<<10)))
			want = append(want, "session_forked", "input_accepted", "tool_result")
		}
		all := w.entries(t.id)
		if len(all) != len(want) {
			w.Fatalf("%d entries, want %d", len(all), len(want))
		}
		for i, e := range all {
			if e.Kind.String() != want[i] {
				w.Fatalf("entry %d is %s, want %s", i+1, e.Kind, want[i])
			}
		}
	}},
}
