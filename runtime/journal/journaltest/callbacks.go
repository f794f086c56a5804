package journaltest

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// asking is a turn with a running command, and a request of that.
func asking(w *world) (*turn, store.Ask) {
	w.Helper()
	w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 2))
	t := w.begin()
	w.ok(t.execOn("c1", "m1"))
	running, err := w.RunningExecs(w.Context(), t.id)
	w.ok(err)
	return t, store.Ask{
		Tenant: tenant, Session: t.id, Exec: running[0].ID, Name: "k", Tool: "crm", Args: []byte("args\x00"), Body: []byte("body\x00"), MostOpen: 4, Most: 6,
	}
}

// take makes a call of what a command asks for.
func (t *turn) take(call string) error {
	return t.commit(func(s *store.Step) {
		s.Take = []store.Take{{Call: call}}
		s.Intend = []store.Effect{{Call: call, Class: opaque, Tool: "crm", ArgsSHA256: digest(call)}}
	}, called(call, opaque))
}

func (t *turn) exited(exec uuid.UUID) {
	t.must(func(s *store.Step) { s.ExecEnds = []store.ExecEnd{{ID: exec}} }, execExited("c1", exec))
}

var callbackCases = []testCase{
	{name: "what a command asks for comes back in its bytes, and so does the answer", run: func(w *world) {
		t, ask := asking(w)
		made, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		wanted, err := w.Asked(w.Context(), t.claim, 10)
		w.ok(err)
		if len(wanted) != 1 || wanted[0].Call != made.Call || !bytes.Equal(wanted[0].Args, ask.Args) || !bytes.Equal(wanted[0].Body, ask.Body) {
			w.Fatalf("asked for %+v", wanted)
		}
		w.ok(t.take(made.Call))
		w.isState(t.take(ask.Exec.String() + "/nobody"))
		w.ok(t.commit(func(s *store.Step) {
			s.Settle = []store.Settle{{Call: made.Call, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_OK, Answer: &store.Answer{Content: []byte("said"), Data: []byte("data\x00")}}}
		}, result(made.Call, journalv1.ToolOutcome_TOOL_OUTCOME_OK, []byte("said"))))
		got, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		if len(made.Args)+len(made.Body)+len(got.Args)+len(got.Body) > 0 {
			w.Errorf("who waits for the answer is given the request: %+v, %+v", made, got)
		}
		outcome, answer, err := w.CallbackAnswer(w.Context(), t.id, got.Call)
		w.ok(err)
		if got.State != store.CallbackAnswered || outcome != journalv1.ToolOutcome_TOOL_OUTCOME_OK || string(answer.Content) != "said" || string(answer.Data) != "data\x00" {
			w.Errorf("%+v is answered %s: %+v", got, outcome, answer)
		}
		entries := w.entries(t.id)
		w.ok(w.Erase(w.Context(), tenant, t.id, entries[len(entries)-1].Seq, "asked for"))
		got, err = w.Callback(w.Context(), t.id, made.Call)
		w.ok(err)
		_, answer, err = w.CallbackAnswer(w.Context(), t.id, made.Call)
		if w.ok(err); len(got.Args)+len(got.Body)+len(answer.Content)+len(answer.Data) > 0 {
			w.Errorf("after the erasure: %+v, %+v", got, answer)
		}
	}},
	{name: "a name is one request's, and equal ones without a name are one until it is told", run: func(w *world) {
		_, ask := asking(w)
		first, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		again, err := w.AskCall(w.Context(), ask)
		if w.ok(err); again.Call != first.Call {
			w.Errorf("calls %s and %s", first.Call, again.Call)
		}
		other := ask
		other.Body = []byte("another")
		_, err = w.AskCall(w.Context(), other)
		w.is(err, store.ErrConflict)
		other.Name, ask.Name = "", ""
		unnamed, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		same, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		different, err := w.AskCall(w.Context(), other)
		w.ok(err)
		w.ok(w.CallbackTold(w.Context(), ask.Session, unnamed.Call))
		next, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		if unnamed.Call == first.Call || same.Call != unnamed.Call || different.Call == unnamed.Call || next.Call == unnamed.Call {
			w.Errorf("calls %s, %s, %s, %s, %s", first.Call, unnamed.Call, same.Call, different.Call, next.Call)
		}
		other.Body = []byte("too many")
		_, err = w.AskCall(w.Context(), other)
		w.is(err, store.ErrBusy)
	}},
	{name: "nothing parks over a call that nobody has taken, and one wakes what is parked", run: func(w *world) {
		t, ask := asking(w)
		made, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		if t.park() {
			w.Fatal("parked")
		}
		w.ok(t.take(made.Call))
		t.card(made.Call, time.Hour)
		if !t.park() {
			w.Fatal("not parked")
		}
		w.claimNone(w, w.executor())
		ask.Name = "another"
		_, err = w.AskCall(w.Context(), ask)
		w.ok(err)
		w.claimOne(w, w.executor(), t.id)
	}},
	{name: "what nobody has taken ends with its command, and a command that has ended asks for nothing", run: func(w *world) {
		t, ask := asking(w)
		made, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		t.exited(ask.Exec)
		got, err := w.Callback(w.Context(), t.id, made.Call)
		w.ok(err)
		outcome, _, err := w.CallbackAnswer(w.Context(), t.id, made.Call)
		if w.ok(err); got.State != store.CallbackAnswered || outcome != journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED {
			w.Errorf("it is %+v, %s", got, outcome)
		}
		ask.Name = "another"
		_, err = w.AskCall(w.Context(), ask)
		w.is(err, store.ErrNotFound)
		ask.Tenant = "tenant-two"
		_, err = w.AskCall(w.Context(), ask)
		w.is(err, store.ErrNotFound)
		w.db.Elapse(w, 2*time.Hour)
		w.ok(w.Tidy(w.Context()))
		_, err = w.Callback(w.Context(), t.id, made.Call)
		w.is(err, store.ErrNotFound)
		_, _, err = w.CallbackAnswer(w.Context(), t.id, made.Call)
		w.is(err, store.ErrNotFound)
	}},
	{name: "who waits inside a command is woken now and then, who waits outside is not", run: func(w *world) {
		inside, ask := asking(w)
		made, err := w.AskCall(w.Context(), ask)
		w.ok(err)
		w.ok(inside.take(made.Call))
		inside.card(made.Call, 100*time.Hour)
		inside.park()
		outside := w.begin()
		outside.call("c1", opaque)
		outside.card("c1", 100*time.Hour)
		outside.park()
		wake := func(want int) {
			w.Helper()
			n, err := w.WakeWaiting(w.Context(), time.Minute, 10)
			if w.ok(err); n != want {
				w.Errorf("%d woken, want %d", n, want)
			}
		}
		wake(0)
		w.db.Elapse(w, 2*time.Minute)
		wake(1)
		wake(0)
		w.claimOne(w, w.executor(), inside.id)
	}},
}
