package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
)

// waiting makes machines of the pool and gives their apps by id.
func (w *world) waiting(n int) map[string]string {
	w.Helper()
	apps := map[string]string{}
	for i := range n {
		app := fmt.Sprintf("pool-%d", i)
		apps[w.machine(app, "flyfleet_pool", pool)] = app
	}
	return apps
}

// Two replicas and more tenants than machines: each machine has one tenant, in the database and on itself, and was not
// restarted for it.
func TestReplicasNeverClaimOneMachineTwice(t *testing.T) {
	w := newWorld(t)
	apps := w.waiting(4)
	versions := map[string]string{}
	for id, app := range apps {
		versions[id] = w.live(app, id).InstanceID
	}
	w.machine("elsewhere", "flyfleet_pool", "another")
	g := newGreeter(w)
	replicas := []*replica{}
	for range 2 {
		replicas = append(replicas, w.replica(withPool, func(o *slots.Options) { o.Dial = g.dial }))
	}
	var turns []*turn
	for tenant := range 6 {
		for _, r := range replicas { // two sessions of each tenant, one a replica
			turns = append(turns, r.begin(fmt.Sprintf("t%d", tenant)))
		}
	}
	var mu sync.Mutex
	tenantsOf, machinesOf := map[string]string{}, map[string]string{}
	var wait sync.WaitGroup
	for _, one := range turns {
		wait.Go(func() {
			for range 50 {
				place, err := one.slots.Open(t.Context(), one.claim)
				if err != nil {
					if !isUnavailable(err) {
						t.Errorf("error %v", err)
						return
					}
					if strings.Contains(err.Error(), "has no machine left") {
						return
					}
					continue
				}
				place.Close()
				mu.Lock()
				defer mu.Unlock()
				if before, has := tenantsOf[place.Machine]; has && before != one.claim.Tenant {
					t.Errorf("machine %s serves %s and %s", place.Machine, before, one.claim.Tenant)
				}
				if before, has := machinesOf[one.claim.Tenant]; has && before != place.Machine {
					t.Errorf("tenant %s has %s and %s", one.claim.Tenant, before, place.Machine)
				}
				tenantsOf[place.Machine], machinesOf[one.claim.Tenant] = one.claim.Tenant, place.Machine
				return
			}
			t.Errorf("tenant %s got no answer", one.claim.Tenant)
		})
	}
	wait.Wait()
	if len(tenantsOf) != 4 {
		t.Errorf("%d machines are given: %v", len(tenantsOf), tenantsOf)
	}
	for id, tenant := range tenantsOf {
		m := w.live(apps[id], id)
		if m.Metadata()["flyfleet_tenant"] != tenant || m.Metadata()["flyfleet_pool"] != pool {
			t.Errorf("machine %s of %s says %v", id, tenant, m.Metadata())
		}
		if m.InstanceID != versions[id] || m.State != flyapi.StateStarted {
			t.Errorf("machine %s was restarted", id)
		}
	}
}

// A claim whose write may or may not have arrived uses the machine up: it says so, and no tenant gets it, not even this one.
func TestClaimThatFailsAfterItsFirstWriteRetiresTheMachine(t *testing.T) {
	for name, rule := range map[string]faults.Rule{
		"the write's answer is lost": {Method: "POST", Path: "/v1/apps/*/machines/*/metadata/flyfleet_tenant", Times: 4, Status: 502, Execute: true},
		"the write itself is lost":   {Method: "POST", Path: "/v1/apps/*/machines/*/metadata/flyfleet_tenant", Times: 4, Status: 502},
		"the write is not there":     {Method: "POST", Path: "/v1/apps/*/machines/*/metadata/flyfleet_tenant", Times: 1, Status: 200, Body: "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			apps := w.waiting(2)
			r := w.replica(withPool)
			w.fault(rule)
			place := r.begin("t").mustOpen()
			used := ""
			for id, app := range apps {
				said := w.live(app, id).Metadata()
				switch {
				case id == place.Machine:
					if said["flyfleet_tenant"] != "t" || said["flyfleet_pool_state"] != "" {
						t.Errorf("the tenant's machine says %v", said)
					}
				case said["flyfleet_pool_state"] != "retired":
					t.Errorf("the machine of the failed claim says %v", said)
				default:
					used = id
				}
			}
			if m, err := r.store.Machine(t.Context(), used); err != nil || !m.Retired {
				t.Errorf("the machine of the failed claim is %+v, %v", m, err)
			}
			// Another database learns it from the machine.
			if _, err := r.begin("next").open(); !isUnavailable(err) {
				t.Errorf("the next tenant got %v", err)
			}
			r.sql("DELETE FROM machine_slots; DELETE FROM machines")
			if _, err := r.begin("third").open(); !isUnavailable(err) || !strings.Contains(err.Error(), "no machine left") {
				t.Errorf("with an empty database: %v", err)
			}
		})
	}
}

// A mark that could not be set is set by a later pass.
func TestRetiredMachineIsMarkedLater(t *testing.T) {
	w := newWorld(t)
	apps := w.waiting(1)
	r := w.replica(withPool)
	w.fault(faults.Rule{Method: "POST", Path: "/v1/apps/*/machines/*/metadata/*", Times: 8, Status: 502})
	if _, err := r.begin("t").open(); !isUnavailable(err) {
		t.Errorf("error %v", err)
	}
	w.p.Faults.Clear()
	if _, err := r.slots.Rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, app := range apps {
		if said := w.live(app, id).Metadata(); said["flyfleet_pool_state"] != "retired" || said["flyfleet_tenant"] != "" {
			t.Errorf("it says %v", said)
		}
	}
}

// A claim that was refused before its first write, or whose replica died then, goes on with the same machine and tenant.
func TestClaimThatBrokeOffGoesOnWithTheSameMachine(t *testing.T) {
	w := newWorld(t)
	apps := w.waiting(3)
	r := w.replica(withPool)
	w.fault(faults.Rule{Method: "POST", Path: "/v1/apps/*/machines/*/metadata/*", Status: 422, Body: `{"error":"not now"}`})
	one := r.begin("t")
	if _, err := one.open(); !isUnavailable(err) {
		t.Fatalf("error %v", err)
	}
	has, err := r.store.TenantMachines(t.Context(), "t")
	if err != nil || len(has) != 1 || has[0].Pool != pool {
		t.Fatalf("it has %+v, %v", has, err)
	}
	one = one.takeOver(w.replica(withPool))
	if place := one.mustOpen(); place.Machine != has[0].ID || w.live(apps[place.Machine], place.Machine).Metadata()["flyfleet_tenant"] != "t" {
		t.Errorf("it is on %s, was promised %s", place.Machine, has[0].ID)
	}
}

// A machine that somebody else took in the meantime is not used, whatever the list said.
func TestMachineOfSomebodyElseIsNotTaken(t *testing.T) {
	w := newWorld(t)
	id := w.machine("p", "flyfleet_pool", pool)
	r := w.replica(withPool, func(o *slots.Options) { o.API = late{o.API, w, id} })
	if _, err := r.begin("t").open(); !isUnavailable(err) {
		t.Errorf("error %v", err)
	}
	if said := w.live("p", id).Metadata(); said["flyfleet_tenant"] != "thief" || said["flyfleet_pool_state"] != "" {
		t.Errorf("it says %v", said)
	}
}

// late is a platform on which another runtime claims the machine right after the list.
type late struct {
	slots.API
	w  *world
	id string
}

func (l late) OrgMachines(ctx context.Context) (flyapi.MachineList, error) {
	list, err := l.API.OrgMachines(ctx)
	return list, errors.Join(err, l.SetMetadata(ctx, "p", l.id, "flyfleet_tenant", "thief"))
}

// A lost key of a machine that was claimed is written again, and the machine is offered to nobody.
func TestLostKeyOfAClaimIsWrittenAgain(t *testing.T) {
	w := newWorld(t)
	apps := w.waiting(1)
	r := w.replica(withPool)
	one := r.begin("t")
	id := one.mustOpen().Machine
	w.ok(w.api.DeleteMetadata(t.Context(), apps[id], id, "flyfleet_tenant"))
	again := w.replica(withPool)
	if _, err := again.begin("other").open(); !isUnavailable(err) {
		t.Errorf("another tenant got %v", err)
	}
	if again.begin("t").mustOpen().Machine != id || w.live(apps[id], id).Metadata()["flyfleet_tenant"] != "t" {
		t.Error("the claim is not there again")
	}
}
