package slots_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// nothing is a platform that lists no machines.
type nothing struct{ slots.API }

func (nothing) OrgMachines(context.Context) (flyapi.MachineList, error) {
	return flyapi.MachineList{}, errors.New("down")
}

// What a session has on its machine is there under its scope: another build, or another way to the machine, must give the same.
func TestScopeOfASession(t *testing.T) {
	claim := store.Claim{Session: uuid.MustParse("0198c2a4-7d11-7c5e-9a55-2f1f7c2b8d10"), Tenant: "t", Fence: 7}
	if got := slots.ScopeOf(claim); got != "s/0198c2a4-7d11-7c5e-9a55-2f1f7c2b8d10" {
		t.Errorf("scope is %q", got)
	}
}

// The slot decides, and not what a list says, or whether there is one.
func TestSessionKeepsItsMachineAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.machine("a", "flyfleet_tenant", "t")
	w.machine("b", "flyfleet_tenant", "t")
	w.machine("c", "flyfleet_tenant", "other")
	one := w.replica().begin("t")
	place := one.mustOpen()
	if _, err := one.start(place); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		one = one.takeOver(w.replica(func(o *slots.Options) { o.API = nothing{o.API} }))
		if again := one.mustOpen(); again.Machine != place.Machine {
			t.Fatalf("it was on %s, is on %s", place.Machine, again.Machine)
		}
	}
}

// Sessions spread over what is free, wait when nothing is, and never see another tenant's machine.
func TestSlotsOfTheTenantAreShared(t *testing.T) {
	w := newWorld(t)
	a, b := w.machine("a", "flyfleet_tenant", "t"), w.machine("b", "flyfleet_tenant", "t")
	w.machine("c", "flyfleet_tenant", "other")
	r := w.replica()
	on := map[string]int{}
	for range 4 {
		one := r.begin("t")
		place := one.mustOpen()
		if _, err := one.start(place); err != nil {
			t.Fatal(err)
		}
		on[place.Machine]++
	}
	if on[a] != 2 || on[b] != 2 {
		t.Errorf("sessions on machines: %v", on)
	}
	if _, err := r.begin("t").open(); !isUnavailable(err) || !strings.Contains(err.Error(), "slot") {
		t.Errorf("the fifth got %v", err)
	}
	none := new(slots.NoMachineError)
	if _, err := r.begin("nobody").open(); !errors.As(err, &none) || none.Tenant != "nobody" {
		t.Errorf("a tenant without a machine got %v", err)
	}
}

// A machine that exists no more gives its slot back, and the session goes on elsewhere.
func TestGoneMachineGivesItsSlotBack(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	one := w.replica().begin("t")
	place := one.mustOpen()
	if _, err := one.start(place); err != nil {
		t.Fatal(err)
	}
	place.Close()
	if err := w.api.DeleteApp(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	successor := w.machine("b", "flyfleet_tenant", "t")
	one = one.takeOver(w.replica())
	next := one.mustOpen()
	if next.Machine != successor {
		t.Fatalf("it is on %s; %s is gone, %s is there", next.Machine, id, successor)
	}
	if _, err := one.start(next); err != nil {
		t.Fatal(err)
	}
}

// A wrong word of the platform's about one machine costs no session its slot.
func TestSlotIsNotLostByOneWord(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	one := w.replica().begin("t")
	if _, err := one.start(one.mustOpen()); err != nil {
		t.Fatal(err)
	}
	g := newGreeter(w)
	g.silent = true
	w.fault(faults.Rule{Method: "GET", Path: "/v1/apps/a/machines/" + id, Times: -1, Status: 404, Body: `{"error":"machine not found"}`})
	one = one.takeOver(w.replica(func(o *slots.Options) { o.Dial = g.dial }))
	if _, err := one.open(); !isUnavailable(err) {
		t.Errorf("error %v", err)
	}
	if held, has, err := one.store.SlotOf(t.Context(), one.claim.Session); err != nil || !has || held.Machine != id {
		t.Errorf("slot %+v, %v, %v", held, has, err)
	}
}

// What cannot be reached is waited for by the caller: no failure of the tool, no lost slot.
func TestMachineThatCannotBeReachedIsUnavailable(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	g := newGreeter(w)
	g.silent = true
	r := w.replica(func(o *slots.Options) { o.Dial, o.Boot = g.dial, 200*time.Millisecond })
	one := r.begin("t")
	if _, err := one.open(); !isUnavailable(err) {
		t.Errorf("error %v", err)
	}
	w.ok(w.p.Faults.Host(id, "unreachable"))
	if _, err := one.open(); !isUnavailable(err) || !strings.Contains(err.Error(), "host") {
		t.Errorf("error %v", err)
	}
	w.ok(w.p.Faults.Host(id, "ok"))
	g.mu.Lock()
	g.silent = false
	g.mu.Unlock()
	if one.mustOpen().Machine != id {
		t.Error("another machine")
	}
}

// A crowd that has no list is one question, also after it failed.
func TestFailedListIsAskedForOnce(t *testing.T) {
	w := newWorld(t)
	w.machine("p", "flyfleet_pool", pool)
	r := w.replica(withPool)
	w.fault(faults.Rule{Path: "/v1/orgs/*/machines", Times: -1, Status: 403, Body: `{"error":"no"}`})
	var turns []*turn
	for range 8 {
		turns = append(turns, r.begin("t"))
	}
	var wait sync.WaitGroup
	for _, one := range turns {
		wait.Go(func() {
			if _, err := one.slots.Open(t.Context(), one.claim); !isUnavailable(err) {
				t.Errorf("error %v", err)
			}
		})
	}
	wait.Wait()
	if n := w.asked("GET", "/v1/orgs/"); n != 1 {
		t.Errorf("%d lists, want 1", n)
	}
	if has, err := r.store.TenantMachines(t.Context(), "t"); err != nil || len(has) != 0 {
		t.Errorf("without a list it got %+v, %v", has, err)
	}
}

// Sessions of one machine share two connections, by flycast where the app has one machine.
func TestSessionsShareAMachinesConnections(t *testing.T) {
	w := newWorld(t)
	w.machine("a", "flyfleet_tenant", "t")
	g := newGreeter(w)
	r := w.replica(func(o *slots.Options) { o.Dial = g.dial })
	for range 2 {
		one := r.begin("t")
		if _, err := one.start(one.mustOpen()); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.dialed) != 1 || g.dialed[0] != "a.flycast:8080" {
		t.Errorf("dialed %v", g.dialed)
	}
}
