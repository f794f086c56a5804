package journaltest

import (
	"bytes"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

var appendCases = []testCase{
	{name: "entries come back as they went in", run: func(w *world) {
		t := w.begin()
		t.must(nil, answer("one"), delta("two"))
		all := w.entries(t.id)
		if got := kinds(all); got != "session_created input_accepted model_completed model_delta " {
			w.Errorf("kinds are %s", got)
		}
		last := all[len(all)-1]
		if last.Fence != t.claim.Fence || last.Submission != t.submission() || last.Session != t.id || last.At.IsZero() {
			w.Errorf("entry is %+v", last)
		}
		some, err := w.Load(w.Context(), tenant, t.id, 1, 2)
		if w.ok(err); len(some) != 2 || some[0].Seq != 2 || some[1].Seq != 3 {
			w.Errorf("after 1, at most 2: %+v", some)
		}
	}},
	// THU-MAIC/OpenMAIC#1493, Autumn-27/ARTEX#112: a tool prints NUL and half a surrogate.
	{name: "bytes that are no text are kept", run: func(w *world) {
		content := []byte("a\x00b\xed\xa0\x80c\xff")
		t := w.begin()
		t.call("c1", journalv1.EffectClass_EFFECT_CLASS_PURE)
		t.must(func(s *store.Step) {
			s.Settle = []store.Settle{{Call: "c1", Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_OK}}
		}, result("c1", journalv1.ToolOutcome_TOOL_OUTCOME_OK, content))
		all := w.entries(t.id)
		if got := all[len(all)-1].Body.GetToolResult().GetContent(); !bytes.Equal(got, content) {
			w.Errorf("content came back as %q", got)
		}
		_, err := w.Index(w.Context(), 10)
		w.ok(err)
	}},
	// existential-birds/amelia#427: one event too large for its column fails a finished run.
	{name: "a large body is kept", run: func(w *world) {
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
		t := w.begin()
		t.must(nil, result("c1", journalv1.ToolOutcome_TOOL_OUTCOME_OK, content), answer("small"))
		all := w.entries(t.id)
		if got := all[2].Body.GetToolResult().GetContent(); !bytes.Equal(got, content) {
			w.Errorf("%d bytes came back, want %d", len(got), len(content))
		}
		if kinds(all) != "session_created input_accepted tool_result model_completed " {
			w.Errorf("kinds are %s", kinds(all))
		}
	}},
	// nearai/ironclaw#7471: ownership is read, somebody takes over, then the transcript is written.
	{name: "an old owner writes nothing", run: func(w *world) {
		old := w.begin()
		old.call("c1", journalv1.EffectClass_EFFECT_CLASS_OPAQUE)
		now := old.takeOver()
		w.is(old.commit(nil, answer("late")), store.ErrFenced)
		w.is(old.start("c1", digest("c1")), store.ErrFenced)
		w.is(old.settle("c1", journalv1.ToolOutcome_TOOL_OUTCOME_OK), store.ErrFenced)
		w.is(old.finish(), store.ErrFenced)
		_, err := w.Park(w.Context(), old.claim)
		w.is(err, store.ErrFenced)
		w.is(w.Release(w.Context(), old.claim, 0), store.ErrFenced)
		_, err = w.Look(w.Context(), old.claim)
		w.is(err, store.ErrFenced)
		_, err = w.Begin(w.Context(), old.claim)
		w.is(err, store.ErrFenced)
		now.must(nil, answer("mine"))
		if got := kinds(w.entries(now.id)); got != "session_created input_accepted tool_called model_completed " {
			w.Errorf("kinds are %s", got)
		}
	}},
	// riverqueue/river#1302: a rescuer reads "running", the worker completes, the rescuer writes.
	{name: "a recovery that comes late changes nothing", run: func(w *world) {
		t := w.begin()
		rescuer := t.takeOver()
		after := rescuer.takeOver()
		w.ok(after.finish())
		w.is(rescuer.finish(), store.ErrFenced)
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted submission_settled " {
			w.Errorf("kinds are %s", got)
		}
	}},
	// OpenHands/software-agent-sdk#4487: no head pointer that can be torn from the entries.
	{name: "the head is the last entry", run: func(w *world) {
		t := w.begin()
		t.must(nil, answer("one"))
		next := t.takeOver()
		all := w.entries(t.id)
		next.last = all[len(all)-1].Seq
		next.must(nil, answer("two"))
	}},
	{name: "a gap and a wrong view are refused", run: func(w *world) {
		t := w.begin()
		last := t.last
		t.last += 3
		w.is(t.commit(nil, answer("gap")), store.ErrGap)
		w.is(t.start("c1", digest("c1")), store.ErrGap)
		t.last = last
		t.must(nil, answer("dense"))
		w.entries(t.id)
	}},
	{name: "other entries under the own fence are told loudly", run: func(w *world) {
		t := w.begin()
		at := t.last
		t.must(nil, answer("one"))
		t.last = at
		w.is(t.commit(nil, answer("another")), store.ErrCollision)
		t.last = at
		t.must(nil, answer("one")) // the same bytes: its answer was lost
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted model_completed " {
			w.Errorf("kinds are %s", got)
		}
	}},
	{name: "steps of many sessions do not harm each other", run: func(w *world) {
		const sessions = 24
		turns := make([]*turn, sessions)
		for i := range turns {
			turns[i] = w.begin()
		}
		stale := turns[0]
		taken := 0
		for e := w.kill(); taken < sessions; {
			claims, err := w.Claim(w.Context(), e, sessions)
			w.ok(err)
			for _, c := range claims {
				for i, t := range turns {
					if t.id == c.Session && i > 0 {
						t.claim = c
					}
				}
			}
			taken += len(claims)
		}
		var wait sync.WaitGroup
		for _, t := range turns[1:] {
			wait.Go(func() {
				for range 10 {
					if err := t.commit(nil, delta("d"), answer("a")); err != nil {
						w.Error(err)
					}
				}
			})
		}
		wait.Go(func() {
			for range 10 {
				if err := stale.commit(nil, delta("late")); err == nil {
					w.Error("an old owner's step was accepted among others")
				}
			}
		})
		wait.Wait()
		for _, t := range turns[1:] {
			if n := len(w.entries(t.id)); n != 22 {
				w.Errorf("session %s has %d entries, want 22", t.id, n)
			}
		}
	}},
	{name: "a delta is in the journal when Commit returns", run: func(w *world) {
		t := w.begin()
		t.must(func(s *store.Step) { s.Async = true }, delta("hel"))
		t.must(func(s *store.Step) { s.Async = true }, delta("lo"))
		t.must(nil, answer("hello"))
		if got := kinds(w.entries(t.id)); got != "session_created input_accepted model_delta model_delta model_completed " {
			w.Errorf("kinds are %s", got)
		}
	}},
	{name: "a step that makes no sense is refused", run: func(w *world) {
		t := w.begin()
		w.isState(t.commit(nil))
		w.isState(t.commit(func(s *store.Step) { s.Start = []store.Start{{Call: "c1", At: 3}} }, started("c1")))
		w.isState(t.commit(func(s *store.Step) { s.Async, s.Start = true, []store.Start{{Call: "c1"}} }, started("c1")))
		_, err := w.Commit(w.Context(), t.claim, store.Step{After: t.last, Entries: []journal.Entry{{}}})
		if err == nil {
			w.Error("an entry without a body was accepted")
		}
	}},
}
