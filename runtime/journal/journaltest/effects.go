package journaltest

import (
	"sync"
	"sync/atomic"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const (
	opaque = journalv1.EffectClass_EFFECT_CLASS_OPAQUE
	good   = journalv1.ToolOutcome_TOOL_OUTCOME_OK
)

var effectCases = []testCase{
	{name: "a call starts once", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		w.ok(t.start("c1", digest("c1")))
		w.is(t.start("c1", digest("c1")), store.ErrNotStarted)
		next := t.takeOver()
		w.is(next.start("c1", digest("c1")), store.ErrNotStarted)
		w.ok(next.settle("c1", journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN))
		w.is(next.start("c1", digest("c1")), store.ErrNotStarted)
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted tool_called tool_started tool_result " {
			w.Errorf("kinds are %s: a refused step has left something", got)
		}
	}},
	{name: "a call starts with the arguments that were intended", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		w.is(t.start("c1", digest("others")), store.ErrNotStarted)
		w.is(t.start("never called", digest("c1")), store.ErrNotStarted)
		w.ok(t.start("c1", digest("c1")))
	}},
	{name: "of many starts at once one wins", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		var won atomic.Int32
		var wait sync.WaitGroup
		for range 8 {
			mine := *t
			wait.Go(func() {
				if mine.start("c1", digest("c1")) == nil {
					won.Add(1)
				}
			})
		}
		wait.Wait()
		// The others wrote the same entry under the same fence: whoever asks is told that it is there, once.
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted tool_called tool_started " || won.Load() == 0 {
			w.Errorf("%d won, kinds are %s", won.Load(), got)
		}
	}},
	// OpenHands/software-agent-sdk#2298: recovery writes a result, then the call's own result comes.
	{name: "a call has one result", run: func(w *world) {
		t := w.begin()
		t.call("c1", opaque)
		w.ok(t.settle("c1", journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED))
		w.isState(t.settle("c1", good))
		w.isState(t.settle("never called", good))
	}},
	{name: "an answer and its calls are one step", run: func(w *world) {
		t := w.begin()
		t.must(func(s *store.Step) {
			for _, id := range []string{"a", "b", "c"} {
				s.Intend = append(s.Intend, store.Effect{Call: id, Submission: t.submission(), Class: opaque, Tool: "tool", ArgsSHA256: digest(id)})
			}
		}, answer("three calls"), called("a", opaque), called("b", opaque), called("c", opaque))
		w.ok(t.start("b", digest("b")))
		w.ok(t.settle("b", good))
		// A call of this id is there already: nothing of the step stays.
		before := len(w.entries(t.id))
		if t.commit(func(s *store.Step) {
			s.Intend = []store.Effect{{Call: "d", Class: opaque, Tool: "tool"}, {Call: "a", Class: opaque, Tool: "tool"}}
		}, answer("again"), called("d", opaque), called("a", opaque)) == nil {
			w.Error("a call was intended twice")
		}
		if now := len(w.entries(t.id)); now != before {
			w.Errorf("%d entries, want %d", now, before)
		}
		w.is(t.start("d", digest("d")), store.ErrNotStarted)
	}},
	{name: "the end is reserved, then written once", run: func(w *world) {
		t := w.begin()
		reserve := func(t *turn, record string) error {
			_, err := w.Commit(w.Context(), t.claim, store.Step{After: t.last, Terminalize: &store.Terminal{Submission: t.submission(), Record: []byte(record)}})
			return err
		}
		w.ok(reserve(t, "completed"))
		w.ok(reserve(t, "completed"))
		w.isState(reserve(t, "failed"))
		if t.park() {
			w.Error("parked while settling")
		}
		next := t.takeOver()
		if u := next.claim.Submission; u.State != store.SubmissionTerminalizing || string(u.Terminal) != "completed" {
			w.Fatalf("the next owner finds %+v", u)
		}
		w.ok(next.finish())
		w.isState(next.finish())
		u, err := w.Submission(w.Context(), tenant, t.submission())
		if w.ok(err); u.State != store.SubmissionSettled || u.SettledSeq != next.last || u.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
			w.Errorf("settled as %+v", u)
		}
	}},
}
