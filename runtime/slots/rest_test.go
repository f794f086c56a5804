package slots_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
)

func (r *replica) rest() int {
	r.Helper()
	n, err := r.slots.Rest(r.Context())
	r.ok(err)
	return n
}

// Nothing goes on for long enough: cold. A session comes: awake again, on the same machine.
func TestIdleMachineBecomesColdAndWakes(t *testing.T) {
	for name, c := range map[string]struct {
		cold  slots.Cold
		fault *faults.Rule
		want  string
	}{
		"suspended":              {cold: slots.ColdSuspend, want: flyapi.StateSuspended},
		"stopped":                {cold: slots.ColdStop, want: flyapi.StateStopped},
		"stopped, as it must be": {cold: slots.ColdSuspend, fault: &faults.Rule{Method: "POST", Path: "/v1/**/suspend", Status: 422, Body: `{"error":"too large"}`}, want: flyapi.StateStopped},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.machine("a", "flyfleet_tenant", "t")
			r := w.replica(func(o *slots.Options) { o.Cold = c.cold })
			one := r.begin("t")
			exec, err := one.start(one.mustOpen())
			w.ok(err)
			w.elapse()
			if r.rest() != 0 {
				t.Fatal("it rests under a session that runs")
			}
			one.ended(exec)
			one.idle()
			if r.rest() != 0 {
				t.Fatal("it rests at once")
			}
			if c.fault != nil {
				w.fault(*c.fault)
			}
			w.elapse()
			if n := r.rest(); n != 1 || w.live("a", id).State != c.want {
				t.Fatalf("%d are cold, it is %s", n, w.live("a", id).State)
			}
			w.elapse()
			if r.rest() != 0 {
				t.Error("it was made cold twice")
			}
			if next := r.begin("t").mustOpen(); next.Machine != id || w.live("a", id).State != flyapi.StateStarted {
				t.Errorf("the next session is on %s, %s is %s", next.Machine, id, w.live("a", id).State)
			}
		})
	}
}

// A command of anybody's, one that ran on without its caller too, keeps the machine awake. So does one of which only the
// database knows, and a machine that does not say what runs.
func TestMachineWithARunningCommandIsLeftAlone(t *testing.T) {
	for name, cold := range map[string]slots.Cold{"suspend": slots.ColdSuspend, "stop": slots.ColdStop} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.machine("a", "flyfleet_tenant", "t")
			r := w.replica(func(o *slots.Options) { o.Cold = cold })
			one := r.begin("t")
			exec, err := one.start(one.mustOpen())
			w.ok(err)
			one.idle()
			w.elapse()
			if r.rest() != 0 {
				t.Error("it rests under a command that the database knows")
			}
			w.sql("UPDATE execs SET state = 2")
			_ = exec
			busy := `{"state":"serving","running":1,"quiesce":"busy"}`
			w.ok(w.p.Faults.ScriptExec(digest, none.Answer{Stdout: busy}))
			if r.rest() != 0 {
				t.Error("it rests under a command")
			}
			w.elapse()
			w.ok(w.p.Faults.ScriptExec(digest, none.Answer{ExitCode: 1, Stderr: "no answer"}))
			if n, err := r.slots.Rest(t.Context()); n != 0 || err == nil {
				t.Errorf("a machine that does not say what runs: %d, %v", n, err)
			}
			if w.asked("POST", "/stop")+w.asked("POST", "/suspend") != 0 || w.live("a", id).State != flyapi.StateStarted {
				t.Error("it was asked to rest")
			}
			w.elapse()
			w.ok(w.p.Faults.ScriptExec(digest))
			if r.rest() != 1 {
				t.Error("it does not rest when all is over")
			}
		})
	}
}

// gate holds one call of the platform until it is opened.
type gate struct {
	slots.API
	reached, open chan struct{}
}

func (g gate) SuspendMachine(ctx context.Context, app, id string, lease flyapi.Lease) error {
	close(g.reached)
	<-g.open
	return g.API.SuspendMachine(ctx, app, id, lease)
}

// Between the mark and the end of a rest no session gets the machine; after it, it is woken.
func TestSessionWaitsForARestUnderWay(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	g := gate{API: w.api, reached: make(chan struct{}), open: make(chan struct{})}
	r := w.replica(func(o *slots.Options) { o.API = g })
	one := r.begin("t")
	place := one.mustOpen()
	one.idle()
	w.elapse()
	var wait sync.WaitGroup
	wait.Go(func() {
		if n, err := r.slots.Rest(t.Context()); n != 1 || err != nil {
			t.Errorf("%d are cold, %v", n, err)
		}
	})
	<-g.reached
	two := w.replica().begin("t")
	if _, err := two.open(); !isUnavailable(err) {
		t.Errorf("in the middle of a rest: %v", err)
	}
	if _, err := two.start(place); err == nil {
		t.Error("a command started in the middle of a rest")
	}
	close(g.open)
	wait.Wait()
	if two.mustOpen().Machine != id || w.live("a", id).State != flyapi.StateStarted {
		t.Error("it is not awake")
	}
}

// The mark of a replica that died is taken away by the next who needs the machine.
func TestMarkOfADeadReplicaIsTakenAway(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	r := w.replica()
	one := r.begin("t")
	one.mustOpen()
	one.idle()
	w.elapse()
	if began, err := r.store.BeginRest(t.Context(), id, time.Minute); err != nil || !began {
		t.Fatal(began, err)
	}
	two := w.replica().begin("t")
	if _, err := two.start(two.mustOpen()); err != nil {
		t.Error(err)
	}
}

// Whoever else holds the machine, a swap for instance, is not disturbed.
func TestLeasedMachineIsNotRested(t *testing.T) {
	w := newWorld(t)
	id := w.machine("a", "flyfleet_tenant", "t")
	r := w.replica()
	one := r.begin("t")
	one.mustOpen()
	one.idle()
	w.elapse()
	w.ok(w.api.WithLease(t.Context(), "a", id, func(context.Context, flyapi.Lease) error {
		if r.rest() != 0 {
			t.Error("it rests under a foreign lease")
		}
		return nil
	}))
	if r.rest() != 1 {
		t.Error("it does not rest after the lease")
	}
}
