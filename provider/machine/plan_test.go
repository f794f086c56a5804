package machine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

func TestAPlanThatWouldChangeAMountedVolumeIsRefused(t *testing.T) {
	one := plannedMount{volume: types.StringValue("vol_1")}
	for _, c := range []struct {
		name    string
		state   map[string]mount
		planned map[string]plannedMount
		refused bool
		replace bool
	}{
		{"same", sample().Mounts, map[string]plannedMount{"/data": one}, false, false},
		{"nothing mounted", nil, nil, false, false},
		{"first mount", nil, map[string]plannedMount{"/data": one}, false, false},
		{"other volume", sample().Mounts, map[string]plannedMount{"/data": {volume: types.StringValue("vol_2")}}, true, false},
		{"unknown volume", sample().Mounts, map[string]plannedMount{"/data": {volume: types.StringUnknown()}}, true, false},
		{"unknown mounts", sample().Mounts, nil, true, false},
		{"mount removed", sample().Mounts, map[string]plannedMount{}, true, false},
		{"other path", sample().Mounts, map[string]plannedMount{"/x": one}, true, false},
		{"other volume, allowed", sample().Mounts, map[string]plannedMount{"/data": {volume: types.StringValue("vol_2"), replace: true}}, false, true},
		{"unknown volume, allowed", sample().Mounts, map[string]plannedMount{"/data": {volume: types.StringUnknown(), replace: true}}, false, true},
		{"mount removed, allowed before", map[string]mount{"/data": {VolumeID: "vol_1", ReplaceWithVolume: true}}, map[string]plannedMount{}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var refused, replace bool
			for _, v := range mountRule(c.state, c.planned) {
				refused = refused || !v.replace
				replace = replace || v.replace
				if text := v.text(sample()); !strings.Contains(text, "vol_1") || !strings.Contains(text, "m1") {
					t.Errorf("the text does not name machine and volume: %s", text)
				}
			}
			if refused != c.refused || replace != c.replace {
				t.Fatalf("refused %v, replace %v", refused, replace)
			}
		})
	}
}

func TestTerraformDoesNotUndoARolloutUnasked(t *testing.T) {
	for _, c := range []struct {
		declared, seen string
		want           verdict
	}{
		{"", "", allow},
		{"", mark.Terraform, allow},
		{mark.Terraform, mark.Terraform, allow},
		{"", mark.Rollout, refuse},
		{mark.Terraform, mark.Rollout, warn},
		{mark.Rollout, mark.Rollout, refuse},
		{mark.Rollout, mark.Terraform, refuse},
	} {
		if got := ownership(c.declared, c.seen); got != c.want {
			t.Errorf("declared %q, on the machine %q: %v, want %v", c.declared, c.seen, got, c.want)
		}
	}
}

// A peer took any machine of the name for its own and put the plan into the state, whatever the machine ran.
func TestOnlyAnEqualMachineOfOursIsAdopted(t *testing.T) {
	sent := func(edit func(*model)) string {
		m := sample()
		edit(&m)
		raw, err := createConfig(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	asIs := func(*model) {}
	for _, c := range []struct {
		name   string
		config string
		region string
		want   string // "" means adopted
	}{
		{"equal", sent(asIs), "fra", ""},
		{"filled in by Fly", strings.Replace(sent(asIs), `"guest":{`, `"init":{},"guest":{"persist_rootfs":"never",`, 1), "fra", ""},
		{"not ours", strings.Replace(sent(asIs), mark.CreateKey, "other", 1), "fra", "did not make it"},
		{"finished", strings.Replace(sent(asIs), `"open"`, `"done"`, 1), "fra", "was finished"},
		{"of the rollout", strings.Replace(sent(asIs), `"terraform"`, `"rollout"`, 1), "fra", mark.OwnerKey},
		{"other image", sent(func(m *model) { m.Image = types.StringValue("nginx") }), "fra", "image"},
		{"more env", sent(func(m *model) { m.Env = map[string]string{"A": "1", "B": "60s", "C": "x"} }), "fra", "env"},
		{"less env", sent(func(m *model) { m.Env = nil }), "fra", "env"},
		{"other tenant", sent(func(m *model) { m.Metadata = map[string]string{"flyfleet_fleet": "other"} }), "fra", "metadata"},
		{"other volume", sent(func(m *model) { m.Mounts = map[string]mount{"/data": {VolumeID: "vol_2"}} }), "fra", "mounts"},
		{"other size", sent(func(m *model) { m.Guest = &guestModel{CPUKind: "shared", CPUs: 2, MemoryMB: 512} }), "fra", "guest"},
		{"other region", sent(asIs), "ams", "region"},
	} {
		t.Run(c.name, func(t *testing.T) {
			why := unlike(machineWith(t, c.config, c.region), sample())
			if c.want == "" && why != "" || c.want != "" && !strings.Contains(why, c.want) {
				t.Fatalf("why %q, want %q", why, c.want)
			}
		})
	}
}

func TestAnUnfinishedCreateIsJudgedByWhatRuns(t *testing.T) {
	one, two := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	open := openStep{Image: "r/a@" + one}
	for _, c := range []struct {
		name string
		m    flyapi.Machine
		why  string
	}{
		{"runs", flyapi.Machine{State: "started", ImageRef: flyapi.ImageRef{Digest: one}}, ""},
		{"boots", flyapi.Machine{State: "starting"}, "still starting"},
		{"failed", flyapi.Machine{State: "failed"}, "failed to start"},
		// flyctl PR#4878, PR#4921: a failed pull leaves another image running, and its checks pass.
		{"other image", flyapi.Machine{State: "started", ImageRef: flyapi.ImageRef{Repository: "a", Digest: two}}, "instead of"},
		{"ended", flyapi.Machine{State: "stopped", Events: []flyapi.Event{{Type: "exit", ExitCode: 3}}}, "code 3"},
		{"gone", flyapi.Machine{State: "destroyed"}, "gone"},
	} {
		if o := judge(&c.m, open); c.why == "" && !o.finished() || !strings.Contains(o.why, c.why) {
			t.Errorf("%s: %q", c.name, o.why)
		}
	}
	failing := flyapi.Machine{State: "started", ImageRef: flyapi.ImageRef{Digest: one}, Checks: []flyapi.Check{{Name: "health", Status: "critical"}}}
	if o := judge(&failing, open); !o.finished() || o.note == "" {
		t.Errorf("a failing check is a remark about a machine that runs, got %+v", o)
	}
}

func TestDeclaredPathsAreNoLongerImported(t *testing.T) {
	object := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"env": tftypes.Map{ElementType: tftypes.String}, "image": tftypes.String}}
	value := func(env map[string]tftypes.Value) tftypes.Value {
		var v any
		if env != nil {
			v = env
		}
		return tftypes.NewValue(object, map[string]tftypes.Value{"env": tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, v), "image": tftypes.NewValue(tftypes.String, nil)})
	}
	x := tftypes.NewValue(tftypes.String, "x")
	seen := present(value(map[string]tftypes.Value{"A": x, "B": x}))
	if len(seen) != 3 || seen[0] != "env" || seen[1] != `env["A"]` {
		t.Fatalf("seen %v", seen)
	}
	if left := undeclared(seen, value(map[string]tftypes.Value{"A": x})); len(left) != 1 || left[0] != `env["B"]` {
		t.Fatalf("left %v", left)
	}
	if left := undeclared(seen, value(nil)); len(left) != 3 {
		t.Fatalf("left %v", left)
	}
}

// machineWith is a machine as the client reads it from Fly's answer.
func machineWith(t *testing.T, config, region string) *flyapi.Machine {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":"m1","name":"main","state":"started","region":%q,"instance_id":"i1","host_status":"ok","config":%s}`, region, config)
	}))
	defer srv.Close()
	client, err := flyapi.New(flyapi.Config{FlapsURL: srv.URL, Token: "t", Org: "o"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m, err := client.GetMachine(t.Context(), "a", "m1")
	if err != nil {
		t.Fatal(err)
	}
	return m
}
