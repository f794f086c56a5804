package journaltest

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const attached = journalv1.EffectClass_EFFECT_CLASS_ATTACHED

// exec starts a command for a new call and gives its id.
func (t *turn) exec(call string) uuid.UUID {
	t.Helper()
	t.call(call, attached)
	id := store.NewID()
	t.must(func(s *store.Step) {
		s.Start = []store.Start{{Call: call, ArgsSHA256: digest(call)}}
		s.Execs = []store.Exec{{ID: id, Call: call, Machine: "m1", Epoch: "e1"}}
	}, started(call), execStarted(call, id))
	return id
}

func chunk(exec uuid.UUID, off int64, data string) store.Chunk {
	return store.Chunk{Exec: exec, Stream: store.Stdout, Off: off, RawLen: int64(len(data)), Data: []byte(data)}
}

func (w *world) stdout(exec uuid.UUID) string {
	w.Helper()
	chunks, err := w.ReadOutput(w.Context(), tenant, exec, store.Stdout, 0, 1000)
	w.ok(err)
	var all bytes.Buffer
	for _, c := range chunks {
		all.Write(c.Data)
	}
	return all.String()
}

var outputCases = []testCase{
	{name: "output is kept by offset", run: func(w *world) {
		t := w.begin()
		id := t.exec("c1")
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{
			chunk(id, 0, "hello "), {Exec: id, Stream: store.Stderr, Off: 0, RawLen: 3, Data: []byte("err")}, chunk(id, 6, "wor"),
		}))
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{chunk(id, 9, "ld")}))
		ends, err := w.OutputEnds(w.Context(), id)
		if w.ok(err); ends != (store.Ends{Stdout: 11, Stderr: 3}) {
			w.Errorf("ends are %+v", ends)
		}
		if got := w.stdout(id); got != "hello world" {
			w.Errorf("stdout is %q", got)
		}
		late, err := w.ReadOutput(w.Context(), tenant, id, store.Stdout, 7, 10)
		if w.ok(err); len(late) != 2 || late[0].Off != 6 {
			w.Errorf("from 7: %+v", late)
		}
		none, err := w.ReadOutput(w.Context(), "another", id, store.Stdout, 0, 10)
		if w.ok(err); len(none) != 0 {
			w.Error("another tenant reads the output")
		}
	}},
	{name: "a repeated chunk is there once", run: func(w *world) {
		t := w.begin()
		id := t.exec("c1")
		for range 3 {
			w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{chunk(id, 0, "once")}))
		}
		if got := w.stdout(id); got != "once" {
			w.Errorf("stdout is %q", got)
		}
	}},
	{name: "masked output resumes at raw offsets", run: func(w *world) {
		t := w.begin()
		id := t.exec("c1")
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{{Exec: id, Stream: store.Stdout, Off: 0, RawLen: 40, Data: []byte("***")}}))
		ends, err := w.OutputEnds(w.Context(), id)
		if w.ok(err); ends.Stdout != 40 {
			w.Errorf("ends are %+v", ends)
		}
	}},
	{name: "an old owner adds no output", run: func(w *world) {
		old := w.begin()
		id := old.exec("c1")
		w.ok(w.AppendOutput(w.Context(), old.claim, []store.Chunk{chunk(id, 0, "mine")}))
		now := old.takeOver()
		ends, err := w.OutputEnds(w.Context(), id)
		w.ok(err)
		w.is(w.AppendOutput(w.Context(), old.claim, []store.Chunk{chunk(id, 4, "late")}), store.ErrFenced)
		after, err := w.OutputEnds(w.Context(), id)
		if w.ok(err); after != ends {
			w.Errorf("ends moved from %+v to %+v", ends, after)
		}
		w.ok(w.AppendOutput(w.Context(), now.claim, []store.Chunk{chunk(id, 4, " and mine")}))
		if got := w.stdout(id); got != "mine and mine" {
			w.Errorf("stdout is %q", got)
		}
	}},
	{name: "an exec ends once", run: func(w *world) {
		t := w.begin()
		id := t.exec("c1")
		end := func() error {
			return t.commit(func(s *store.Step) {
				s.ExecEnds = []store.ExecEnd{{ID: id, Code: 3, StdoutEnd: 11, StderrEnd: 0}}
				s.Settle = []store.Settle{{Call: "c1", Outcome: good, At: 1}}
			}, execExited("c1", id), result("c1", good, []byte("out")))
		}
		w.ok(end())
		w.isState(end())
		row, err := w.Exec(w.Context(), tenant, id)
		if w.ok(err); row.State != store.ExecExited || row.Code != 3 || row.Ends.Stdout != 11 || row.Machine != "m1" || row.Epoch != "e1" {
			w.Errorf("exec is %+v", row)
		}
		_, err = w.Exec(w.Context(), "another", id)
		w.is(err, store.ErrNotFound)
	}},
	{name: "output goes after its days, the exec stays", run: func(w *world) {
		t := w.begin()
		running, ended, young := t.exec("c1"), t.exec("c2"), t.exec("c3")
		w.ok(w.AppendOutput(w.Context(), t.claim, []store.Chunk{chunk(running, 0, "a"), chunk(ended, 0, "b"), chunk(young, 0, "c")}))
		t.must(func(s *store.Step) { s.ExecEnds = []store.ExecEnd{{ID: ended, Lost: true}} }, execExited("c2", ended))
		w.db.Elapse(w, 100*time.Hour)
		t.must(func(s *store.Step) { s.ExecEnds = []store.ExecEnd{{ID: young}} }, execExited("c3", young))
		n, err := w.DropOutput(w.Context(), 50*time.Hour, 10)
		if w.ok(err); n != 1 || w.stdout(ended) != "" || w.stdout(running) != "a" || w.stdout(young) != "c" {
			w.Errorf("%d chunks dropped", n)
		}
		row, err := w.Exec(w.Context(), tenant, ended)
		if w.ok(err); row.State != store.ExecLost {
			w.Errorf("exec is %+v", row)
		}
	}},
}
