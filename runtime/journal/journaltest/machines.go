package journaltest

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// execOn starts a command on a machine, with the claim of a slot.
func (t *turn) execOn(call, machine string) error {
	t.Helper()
	t.call(call, attached)
	id := store.NewID()
	return t.commit(func(s *store.Step) {
		s.Start = []store.Start{{Call: call, ArgsSHA256: digest(call)}}
		s.Slot = &store.Slot{Machine: machine}
		s.Execs = []store.Exec{{ID: id, Call: call, Machine: machine}}
	}, started(call), execStarted(call, id))
}

var machineCases = []testCase{
	{name: "the first exec claims a slot, the others keep it", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1))
		t, other := w.begin(), w.begin()
		w.ok(t.execOn("c1", "m1"))
		w.ok(t.execOn("c2", "m1"))
		w.is(other.execOn("c1", "m1"), store.ErrNoSlot)
		held, there, err := w.SlotOf(w.Context(), t.id)
		if w.ok(err); !there || held.Machine != "m1" || held.Slot != 1 || held.Fence != t.claim.Fence {
			w.Errorf("slot is %+v", held)
		}
		if got := kinds(w.entries(other.id)); got != "session_created input_accepted tool_called " {
			w.Errorf("kinds are %s: a refused start has left something", got)
		}
		w.ok(w.ReleaseSlot(w.Context(), t.claim))
		w.ok(other.start("c1", digest("c1")))
		w.ok(other.execOn("c3", "m1"))
	}},
	{name: "the slot survives a takeover, with the new fence", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 2))
		t := w.begin()
		w.ok(t.execOn("c1", "m1"))
		before, _, err := w.SlotOf(w.Context(), t.id)
		w.ok(err)
		next := t.takeOver()
		w.ok(next.execOn("c2", "m1"))
		after, _, err := w.SlotOf(w.Context(), t.id)
		if w.ok(err); after.Slot != before.Slot || after.Fence != next.claim.Fence {
			w.Errorf("slot was %+v, is %+v", before, after)
		}
		w.is(w.ReleaseSlot(w.Context(), t.claim), store.ErrFenced)
	}},
	{name: "a session has one machine at a time", run: func(w *world) {
		for _, id := range []string{"m1", "m2"} {
			w.ok(w.PutMachine(w.Context(), store.Machine{ID: id, App: id, Tenant: tenant}, 4))
		}
		t := w.begin()
		w.ok(t.execOn("c1", "m1"))
		w.is(t.execOn("c2", "m2"), store.ErrNoSlot)
		w.ok(w.ReleaseSlot(w.Context(), t.claim))
		w.ok(t.execOn("c3", "m2"))
	}},
	{name: "a pool's machine goes to one tenant, for good", run: func(w *world) {
		const machines, tenants = 3, 6
		for i := range machines {
			id := string(rune('a' + i))
			w.ok(w.PutMachine(w.Context(), store.Machine{ID: id, App: id, Pool: "warm"}, 1))
		}
		var mu sync.Mutex
		got := map[string]string{}
		none := 0
		var wait sync.WaitGroup
		for i := range tenants {
			wait.Go(func() {
				m, err := w.ClaimFromPool(w.Context(), "warm", "t"+string(rune('0'+i)))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					w.is(err, store.ErrNotFound)
					none++
					return
				}
				if before, twice := got[m.ID]; twice {
					w.Errorf("machine %s was given to %s and %s", m.ID, before, m.Tenant)
				}
				got[m.ID] = m.Tenant
			})
		}
		wait.Wait()
		if len(got) != machines || none != tenants-machines {
			w.Errorf("given: %v, %d got none", got, none)
		}
		// Seen again as a pool's machine, by somebody who has not heard.
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "a", App: "a", Pool: "warm", Tenant: "thief"}, 1))
		m, err := w.Machine(w.Context(), "a")
		if w.ok(err); m.Tenant != got["a"] {
			w.Errorf("machine a is %s's, was %s's", m.Tenant, got["a"])
		}
	}},
	{name: "a retired machine is given to nobody", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Pool: "warm"}, 1))
		w.ok(w.Retire(w.Context(), "m1"))
		_, err := w.ClaimFromPool(w.Context(), "warm", tenant)
		w.is(err, store.ErrNotFound)
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Pool: "warm"}, 1))
		m, err := w.Machine(w.Context(), "m1")
		if w.ok(err); !m.Retired {
			w.Error("seen again, it came back")
		}
	}},
	{name: "a machine is idle when nobody has a slot and nothing runs", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1))
		idle := func() int {
			list, err := w.IdleMachines(w.Context(), time.Hour, 10)
			w.ok(err)
			return len(list)
		}
		if idle() != 0 {
			w.Error("idle when it was first seen")
		}
		t := w.begin()
		w.ok(t.execOn("c1", "m1"))
		w.db.Elapse(w, 2*time.Hour)
		if idle() != 0 {
			w.Error("idle with a session on it")
		}
		execs := w.entries(t.id)
		id := execs[len(execs)-1].Body.GetExecStarted().GetExecId()
		t.must(func(s *store.Step) { s.ExecEnds = []store.ExecEnd{{ID: uuid.MustParse(id)}} }, execExited("c1", uuid.MustParse(id)))
		w.ok(t.settle("c1", journalv1.ToolOutcome_TOOL_OUTCOME_OK))
		t.end()
		n, err := w.ReleaseIdleSlots(w.Context(), time.Hour)
		if w.ok(err); n != 0 {
			w.Error("a slot went at once")
		}
		w.db.Elapse(w, 2*time.Hour)
		n, err = w.ReleaseIdleSlots(w.Context(), time.Hour)
		if w.ok(err); n != 1 {
			w.Errorf("%d slots went, want 1", n)
		}
		w.db.Elapse(w, 2*time.Hour)
		if idle() != 1 {
			w.Error("not idle")
		}
	}},
	{name: "a slot is on the tenant's own machine only", run: func(w *world) {
		for id, owner := range map[string]string{"m1": "somebody else", "m2": ""} {
			w.ok(w.PutMachine(w.Context(), store.Machine{ID: id, App: id, Tenant: owner, Pool: "warm"}, 1))
			w.is(w.begin().execOn("c1", id), store.ErrNoSlot)
		}
	}},
	{name: "a retired machine keeps who has a slot and takes nobody new", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 2))
		t, other := w.begin(), w.begin()
		w.ok(t.execOn("c1", "m1"))
		w.ok(w.Retire(w.Context(), "m1"))
		w.ok(t.execOn("c2", "m1"))
		w.is(other.execOn("c1", "m1"), store.ErrNoSlot)
		has, err := w.TenantMachines(w.Context(), tenant)
		if w.ok(err); len(has) != 0 {
			w.Errorf("it is offered still: %+v", has)
		}
		retired, err := w.RetiredAmong(w.Context(), []string{"m1", "m2"})
		if w.ok(err); len(retired) != 1 || retired[0] != "m1" {
			w.Errorf("retired are %v", retired)
		}
	}},
	{name: "a tenant gets one machine of the pool, however many ask for it", run: func(w *world) {
		for _, id := range []string{"m1", "m2", "m3", "m4"} {
			w.ok(w.PutMachine(w.Context(), store.Machine{ID: id, App: id, Pool: "warm"}, 1))
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				_, err := w.ClaimFromPool(w.Context(), "warm", tenant)
				w.ok(err)
			})
		}
		wait.Wait()
		has, err := w.TenantMachines(w.Context(), tenant)
		if w.ok(err); len(has) != 1 {
			w.Errorf("it has %+v", has)
		}
	}},
	{name: "nothing starts on a machine on its way to rest, and nothing rests under a session at work", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1))
		rest := func() bool {
			began, err := w.BeginRest(w.Context(), "m1", time.Hour)
			w.ok(err)
			return began
		}
		t := w.begin()
		w.db.Elapse(w, 2*time.Hour)
		if rest() {
			w.Error("it rests under a session without a slot")
		}
		t.call("c1", attached)
		t.card("c1", 100*time.Hour)
		t.park()
		if rest() {
			w.Error("it rests at once")
		}
		w.db.Elapse(w, 2*time.Hour)
		if !rest() {
			w.Fatal("a session that waits for a person keeps the machine awake")
		}
		m, err := w.UseMachine(w.Context(), "m1")
		if w.ok(err); !m.Resting {
			w.Errorf("machine is %+v", m)
		}
		other := w.begin()
		w.is(other.execOn("c1", "m1"), store.ErrNoSlot)
		w.ok(w.EndRest(w.Context(), "m1"))
		w.ok(other.start("c1", digest("c1")))
		w.ok(other.execOn("c2", "m1"))
		free, err := w.FreeSlots(w.Context(), "m1")
		if w.ok(err); free != 0 {
			w.Errorf("%d slots are free", free)
		}
	}},
	{name: "a command is found with its slot until that is given back", run: func(w *world) {
		w.ok(w.PutMachine(w.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1))
		t := w.begin()
		w.ok(t.execOn("c1", "m1"))
		running, err := w.RunningExecs(w.Context(), t.id)
		w.ok(err)
		held, _, err := w.SlotOf(w.Context(), t.id)
		w.ok(err)
		got, err := w.ExecSlot(w.Context(), running[0].ID)
		want := store.ExecSlot{Tenant: tenant, Session: t.id, Call: "c1", State: store.ExecStarted, Machine: "m1", Slot: 1, ClaimedAt: held.ClaimedAt, Slotted: true}
		if w.ok(err); got != want {
			w.Errorf("got %+v, want %+v", got, want)
		}
		w.ok(w.ReleaseSlot(w.Context(), t.claim))
		if got, err = w.ExecSlot(w.Context(), running[0].ID); err != nil || got.Slot != 0 {
			w.Errorf("after the release: %+v, %v", got, err)
		}
		_, err = w.ExecSlot(w.Context(), store.NewID())
		w.is(err, store.ErrNotFound)
	}},
}
