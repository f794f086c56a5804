package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/rollout"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
)

const deadline = 30 * time.Second

var (
	oldImage  = "registry.fly.io/tenant@sha256:" + strings.Repeat("1", 64)
	newDigest = "sha256:" + strings.Repeat("2", 64)
	newImage  = "registry.fly.io/tenant@" + newDigest
)

type fleet struct {
	*flylocal.Platform
	t         *testing.T
	client    *flyapi.Client
	transport *http.Transport
	ids       map[string]string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: time.Millisecond, UnbindDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{Platform: p, t: t, transport: &http.Transport{}, ids: map[string]string{}}
	t.Cleanup(func() {
		f.transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	f.client, err = flyapi.New(flyapi.Config{
		FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Transport: f.transport, Pace: flyapi.PaceOff,
	})
	f.must(err)
	return f
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// tenant makes an app with a started machine of the given metadata and env.
func (f *fleet) tenant(app string, metadata, env map[string]string) {
	f.t.Helper()
	ctx := f.t.Context()
	_, err := f.client.CreateApp(ctx, app, f.Org(), app)
	f.must(err)
	config, err := json.Marshal(map[string]any{"image": oldImage, "metadata": metadata, "env": env})
	f.must(err)
	m, err := f.client.CreateMachine(ctx, app, flyapi.CreateRequest{Name: "main", Config: config})
	f.must(err)
	f.must(f.client.WaitMachine(ctx, app, m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}, Budget: deadline}))
	f.ids[app] = m.ID
}

func (f *fleet) runner(opt rollout.Options) *rollout.Runner {
	opt.Target.DrainTimeout = 20 * time.Millisecond
	return rollout.New(f.client, swap.New(f.client, swap.Options{Poll: time.Millisecond}), opt)
}

func (f *fleet) digest(app string) string {
	f.t.Helper()
	m, err := f.client.GetMachine(f.t.Context(), app, f.ids[app])
	f.must(err)
	return m.ImageRef.Digest
}

// Twenty machines, of which one is unreachable, one is leased by another, one is busy, one has foreign env and one
// belongs to Terraform: the rest are swapped, each of those is as it should be, and report and exit status say it.
func TestEveryMachineOfTheFleetIsAccountedFor(t *testing.T) {
	f := newFleet(t)
	ours := map[string]string{swap.MetadataFleet: "prod", "flyfleet_tenant": "t"}
	for i := range 20 {
		meta, env := ours, map[string]string{"A": "1"}
		switch i {
		case 4:
			env = map[string]string{"A": "1", "FOREIGN": "kept"}
		case 5:
			meta = map[string]string{swap.MetadataFleet: "prod", swap.MetadataOwner: "terraform"}
		}
		f.tenant(fmt.Sprintf("t%02d", i), meta, env)
	}
	f.tenant("other", map[string]string{swap.MetadataFleet: "staging"}, nil)
	f.tenant("none", nil, nil)
	f.must(f.Faults.Host(f.ids["t01"], "unreachable"))
	f.must(f.Faults.Answer(faults.Rule{
		Method: "POST", Path: "/v1/apps/t03/machines/*/exec", Contains: "--quiesce", Times: -1, Status: 200,
		Body: `{"exit_code":0,"stdout":"{\"wire\":{\"min\":1,\"max\":1},\"state\":\"serving\",\"running\":1,\"quiesce\":\"busy\"}\n","stderr":""}`,
	}))

	var seen atomic.Int32
	var report rollout.Report
	f.must(f.client.WithLease(t.Context(), "t02", f.ids["t02"], func(ctx context.Context, _ flyapi.Lease) error {
		var err error
		report, err = f.runner(rollout.Options{Progress: func(swap.Outcome) { seen.Add(1) }}).Run(ctx, rollout.Selection{Fleet: "prod"}, newImage)
		return err
	}))

	want := map[string]swap.Code{"t01": swap.CodeUnreachable, "t02": swap.CodeLeased, "t03": swap.CodeBusy, "t05": swap.CodeOwned}
	if len(report.Machines) != 20 || seen.Load() != 20 {
		t.Fatalf("%d machines in the report, %d told", len(report.Machines), seen.Load())
	}
	for i, o := range report.Machines {
		app := fmt.Sprintf("t%02d", i)
		if o.App != app || o.Machine != f.ids[app] {
			t.Fatalf("place %d holds %+v", i, o)
		}
		code, skipped := want[app]
		if o.Code != code || (o.Status == swap.Skipped) != skipped || (o.Reason == "") == skipped {
			t.Errorf("%s: %+v", app, o)
		}
		if app == "t01" {
			continue
		}
		if got := f.digest(app); (got == newDigest) == skipped {
			t.Errorf("%s runs %s", app, got)
		}
	}
	for _, app := range []string{"other", "none"} {
		if f.digest(app) == newDigest {
			t.Errorf("%s is no part of the fleet and was swapped", app)
		}
	}
	m, err := f.client.GetMachine(t.Context(), "t04", f.ids["t04"])
	f.must(err)
	if !strings.Contains(string(m.Config()), `"FOREIGN":"kept"`) {
		t.Errorf("foreign env is gone: %s", m.Config())
	}
	if c := report.Counts(); c != (rollout.Counts{Swapped: 16, Skipped: 4}) || report.ExitCode() != rollout.ExitPartial {
		t.Errorf("%+v, exit %d", c, report.ExitCode())
	}
	for _, part := range []string{"leased by local@flylocal.invalid until 20", "1 running command", "Terraform owns", "its host is unreachable"} {
		if b, err := json.Marshal(report); err != nil || !strings.Contains(string(b), part) {
			t.Errorf("the report does not say %q", part)
		}
	}
}

func TestOneMachineOfTheFleet(t *testing.T) {
	f := newFleet(t)
	for _, app := range []string{"a", "b"} {
		f.tenant(app, map[string]string{swap.MetadataFleet: "prod"}, nil)
	}
	report, err := f.runner(rollout.Options{}).Run(t.Context(), rollout.Selection{Fleet: "prod", MachineID: f.ids["b"]}, newImage)
	if err != nil || len(report.Machines) != 1 || report.Machines[0].Status != swap.Swapped || report.ExitCode() != rollout.ExitDone {
		t.Fatalf("%+v %v", report, err)
	}
	if f.digest("a") == newDigest || f.digest("b") != newDigest {
		t.Error("the wrong machine was swapped")
	}
	again, err := f.runner(rollout.Options{}).Run(t.Context(), rollout.Selection{Fleet: "prod", App: "b"}, newImage)
	if err != nil || len(again.Machines) != 1 || again.Machines[0].Status != swap.Unchanged || again.ExitCode() != rollout.ExitDone {
		t.Fatalf("%+v %v", again, err)
	}
}

func TestTerraformsMachinesAreSwappedWhenForced(t *testing.T) {
	f := newFleet(t)
	f.tenant("a", map[string]string{swap.MetadataFleet: "prod", swap.MetadataOwner: "terraform"}, nil)
	report, err := f.runner(rollout.Options{Target: swap.Target{Force: true}}).Run(t.Context(), rollout.Selection{Fleet: "prod"}, newImage)
	if err != nil || report.Machines[0].Status != swap.Swapped || len(report.Machines[0].Warnings) == 0 {
		t.Fatalf("%+v %v", report, err)
	}
}

func TestRunThatCannotBeginIsAnError(t *testing.T) {
	f := newFleet(t)
	f.tenant("a", map[string]string{swap.MetadataFleet: "prod"}, nil)
	r := f.runner(rollout.Options{})
	for _, tc := range []struct {
		sel   rollout.Selection
		image string
		want  string
	}{
		{rollout.Selection{}, newImage, "no fleet named"},
		{rollout.Selection{Fleet: "prdo"}, newImage, "prod (1)"},
		{rollout.Selection{Fleet: "prod", MachineID: "nope"}, newImage, "with id nope"},
		{rollout.Selection{Fleet: "prod"}, "registry.fly.io/tenant:v2", "no digest"}, // flyctl PR#5010: one tag, two contents
	} {
		report, err := r.Run(t.Context(), tc.sel, tc.image)
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(report.Machines) > 0 {
			t.Errorf("%+v: %v", tc.sel, err)
		}
	}
}

// engine is a Swapper that counts how many swaps run at once.
type engine struct {
	mu        sync.Mutex
	now, most int
	hold      time.Duration
	fail      map[string]bool
}

func (e *engine) Swap(_ context.Context, t swap.Target) (swap.Outcome, error) {
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	time.Sleep(e.hold) // the bubble's clock
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now--
	o := swap.Outcome{App: t.App, Machine: t.Machine, Status: swap.Swapped}
	if e.fail[t.Machine] {
		o.Status = swap.Failed
		return o, &swap.Error{Outcome: o}
	}
	return o, nil
}

type list []flyapi.MachineRow

func (l list) OrgMachines(context.Context) (flyapi.MachineList, error) {
	return flyapi.MachineList{Rows: l}, nil
}

func many(n int) list {
	var l list
	for i := range n {
		l = append(l, flyapi.MachineRow{App: fmt.Sprintf("a%03d", i), ID: fmt.Sprintf("m%03d", i), Metadata: map[string]string{swap.MetadataFleet: "f"}})
	}
	return l
}

func TestConcurrencyIsBoundedAndOneFailureStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{hold: time.Second, fail: map[string]bool{"m007": true}}
		report, err := rollout.New(many(100), e, rollout.Options{Concurrency: 5}).Run(t.Context(), rollout.Selection{Fleet: "f"}, newImage)
		if err != nil || e.most != 5 {
			t.Errorf("%d at once, error %v", e.most, err)
		}
		if c := report.Counts(); c.Swapped != 99 || c.Failed != 1 || report.ExitCode() != rollout.ExitFailed {
			t.Errorf("%+v, exit %d", c, report.ExitCode())
		}
	})
}

// A run that is ended accounts for the machines whose turn had not come.
func TestEndedRunAccountsForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{hold: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		report, err := rollout.New(many(10), e, rollout.Options{Concurrency: 1}).Run(ctx, rollout.Selection{Fleet: "f"}, newImage)
		if err != nil || len(report.Machines) != 10 {
			t.Fatalf("%d machines, error %v", len(report.Machines), err)
		}
		for i, o := range report.Machines {
			if started := i < 3; (o.Status == swap.Swapped) != started || (o.Code == swap.CodeNotStarted) == started || o.Machine == "" {
				t.Errorf("%d: %+v", i, o)
			}
		}
		if report.ExitCode() != rollout.ExitPartial {
			t.Errorf("exit %d", report.ExitCode())
		}
	})
}

func TestRegionsThatCouldNotBeListedMakeARunPartial(t *testing.T) {
	r := rollout.Report{Machines: []swap.Outcome{{Status: swap.Swapped}}, ErrorRegions: []string{"ams"}}
	if r.ExitCode() != rollout.ExitPartial || !strings.Contains(r.Summary(), "ams") {
		t.Errorf("exit %d: %s", r.ExitCode(), r.Summary())
	}
}
