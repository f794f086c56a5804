package machine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

func ptr[T any](v T) *T { return &v }

// sample is a machine with one of everything.
func sample() model {
	return model{
		ID: types.StringValue("m1"), App: "a", Region: "fra", Name: "main",
		Image:    types.StringValue("registry.fly.io/a@sha256:" + strings.Repeat("1", 64)),
		Env:      map[string]string{"A": "1", "B": "60s"},
		Metadata: map[string]string{"flyfleet_fleet": "f"},
		Guest:    &guestModel{CPUKind: "shared", CPUs: 1, MemoryMB: 256},
		Mounts:   map[string]mount{"/data": {VolumeID: "vol_1", AddSizeGB: ptr(int64(1))}},
		Services: []service{{
			InternalPort: 8080, Protocol: "tcp", Autostart: true, Autostop: "off", Ports: []port{{Port: ptr(int64(8080))}},
		}},
		Checks:     map[string]check{"health": {Type: "http", Port: 8080, Path: ptr("/healthz"), Interval: ptr("60s")}},
		StopConfig: &stopConfig{Signal: ptr("SIGTERM"), Timeout: ptr("30s")},
	}
}

// onFly is sample as Fly may answer it: spelled its own way, with fields that nobody here knows.
const onFly = `{"image":"registry.fly.io/a@sha256:1111111111111111111111111111111111111111111111111111111111111111",
 "env":{"A":"1","B":"60s","FOREIGN":"x"},"metadata":{"flyfleet_fleet":"f","fly_x":"y"},
 "guest":{"cpu_kind":"shared","cpus":1,"memory_mb":256,"persist_rootfs":"never"},
 "mounts":[{"volume":"vol_1","path":"/data","name":"data","add_size_gb":1,"size_gb":3}],
 "services":[{"protocol":"tcp","internal_port":8080,"autostart":true,"autostop":"off","force_instance_key":null,"ports":[{"port":8080,"force_https":false}]}],
 "checks":{"health":{"type":"http","port":8080,"path":"/healthz","interval":"1m0s","method":"get"},"foreign":{"type":"tcp","port":1}},
 "stop_config":{"signal":"SIGTERM","timeout":"30s"},"big":9007199254740993,"huge":1e400,"nul":"\u0000","init":{"swap_size_mb":512}}`

func none(string) bool { return false }

func mustChanges(t *testing.T, base, ours model, theirs string, released func(string) bool) ([]change, []conflict) {
	t.Helper()
	changes, conflicts, err := threeWay(tree(base), tree(ours), json.RawMessage(theirs), released)
	if err != nil {
		t.Fatal(err)
	}
	return changes, conflicts
}

func places(changes []change) []string {
	out := []string{}
	for _, c := range changes {
		out = append(out, strings.Join(c.Place, "."))
	}
	slices.Sort(out)
	return out
}

func TestOnlyWhatThePlanChangedIsWritten(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*model)
		want []string
	}{
		{"nothing", func(*model) {}, []string{}},
		{"one variable", func(m *model) { m.Env = map[string]string{"A": "2", "B": "60s"} }, []string{"env.A"}},
		// A value of env is text: 60s and 1m are two values there.
		{"a variable that looks like a duration", func(m *model) { m.Env = map[string]string{"A": "1", "B": "1m"} }, []string{"env.B"}},
		{"variable removed", func(m *model) { m.Env = map[string]string{"B": "60s"} }, []string{"env.A"}},
		{"all variables removed", func(m *model) { m.Env = nil }, []string{"env.A", "env.B"}},
		{"metadata", func(m *model) { m.Metadata = map[string]string{"flyfleet_fleet": "g"} }, []string{"metadata.flyfleet_fleet"}},
		{"memory", func(m *model) { m.Guest = &guestModel{CPUKind: "shared", CPUs: 1, MemoryMB: 512} }, []string{"guest.memory_mb"}},
		{"mount limit", func(m *model) {
			m.Mounts = map[string]mount{"/data": {VolumeID: "vol_1", AddSizeGB: ptr(int64(1)), SizeGBLimit: ptr(int64(9))}}
		}, []string{"mounts.0.size_gb_limit"}},
		{"autostop", func(m *model) { m.Services = slices.Clone(m.Services); m.Services[0].Autostop = "suspend" }, []string{"services.0.autostop"}},
		{"second service", func(m *model) {
			m.Services = append(slices.Clone(m.Services), service{InternalPort: 9, Protocol: "tcp"})
		}, []string{"services"}},
		{"check interval respelled", func(m *model) {
			m.Checks = map[string]check{"health": {Type: "http", Port: 8080, Path: ptr("/healthz"), Interval: ptr("1m")}}
		}, []string{}},
		{"check removed", func(m *model) { m.Checks = map[string]check{} }, []string{"checks.health"}},
		{"stop timeout", func(m *model) { m.StopConfig = &stopConfig{Signal: ptr("SIGTERM"), Timeout: ptr("1m")} }, []string{"stop_config.timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours := sample()
			c.edit(&ours)
			changes, conflicts := mustChanges(t, sample(), ours, onFly, none)
			if got := places(changes); !slices.Equal(got, c.want) {
				t.Fatalf("changes %v, want %v", got, c.want)
			}
			if len(conflicts) != 0 {
				t.Fatalf("conflicts %v", conflicts)
			}
		})
	}
}

// flyctl#1469, #1543, PR#1211, PR#1073: one field after another was wiped by an update.
func TestAnUpdateKeepsEveryByteThatNobodyPlanned(t *testing.T) {
	ours := sample()
	ours.Env = map[string]string{"A": "2", "C": "3"}
	ours.Services = append(slices.Clone(ours.Services), service{InternalPort: 9, Protocol: "tcp", Ports: []port{{Port: ptr(int64(9))}}})
	changes, _ := mustChanges(t, sample(), ours, onFly, none)
	list, err := edits(json.RawMessage(onFly), changes)
	if err != nil {
		t.Fatal(err)
	}
	out, conflicts, err := merge.ThreeWay(json.RawMessage(onFly), list)
	if err != nil || len(conflicts) != 0 {
		t.Fatal(err, conflicts)
	}
	for _, kept := range []string{
		`"FOREIGN":"x"`, `"fly_x":"y"`, `"persist_rootfs":"never"`, `"name":"data"`, `"size_gb":3`, `"foreign":{"type":"tcp","port":1}`,
		`"big":9007199254740993,"huge":1e400,"nul":"\u0000","init":{"swap_size_mb":512}`, `"force_instance_key":null`,
	} {
		if !strings.Contains(string(out), kept) {
			t.Errorf("lost %s", kept)
		}
	}
	var now struct {
		Env      map[string]string `json:"env"`
		Services []remoteService   `json:"services"`
	}
	if err := json.Unmarshal(out, &now); err != nil {
		t.Fatal(err)
	}
	if now.Env["A"] != "2" || now.Env["C"] != "3" || len(now.Env) != 3 || len(now.Services) != 2 {
		t.Fatalf("env %v, %d services", now.Env, len(now.Services))
	}
}

func TestAValueThatSomebodyElseChangedIsAConflictAndItsTextHidesVariables(t *testing.T) {
	ours := sample()
	ours.Env = map[string]string{"A": "2", "B": "60s"}
	ours.Guest = &guestModel{CPUKind: "shared", CPUs: 1, MemoryMB: 512}
	theirs := strings.NewReplacer(`"A":"1"`, `"A":"secret"`, `"memory_mb":256`, `"memory_mb":1024`).Replace(onFly)
	_, conflicts := mustChanges(t, sample(), ours, theirs, none)
	if len(conflicts) != 2 {
		t.Fatalf("conflicts %v", conflicts)
	}
	text := conflicts[0].String() + conflicts[1].String()
	if strings.Contains(text, "secret") || !strings.Contains(text, "guest.memory_mb") || !strings.Contains(text, "1024") {
		t.Fatalf("text %q", text)
	}
}

func TestSomebodyElsesChangeOfWhatThePlanLeavesAloneIsNoConflict(t *testing.T) {
	ours := sample()
	ours.Env = map[string]string{"A": "2", "B": "60s"}
	theirs := strings.NewReplacer(`"memory_mb":256`, `"memory_mb":1024`, `"signal":"SIGTERM"`, `"signal":"SIGHUP"`).Replace(onFly)
	changes, conflicts := mustChanges(t, sample(), ours, theirs, none)
	if len(conflicts) != 0 || !slices.Equal(places(changes), []string{"env.A"}) {
		t.Fatalf("changes %v, conflicts %v", places(changes), conflicts)
	}
}

func TestWhatIsThereAlreadyIsNotWrittenAgain(t *testing.T) {
	ours := sample()
	ours.Env = map[string]string{"A": "2", "B": "60s"}
	changes, conflicts := mustChanges(t, sample(), ours, strings.Replace(onFly, `"A":"1"`, `"A":"2"`, 1), none)
	if len(changes) != 0 || len(conflicts) != 0 {
		t.Fatalf("changes %v, conflicts %v", changes, conflicts)
	}
}

func TestReleasedPathsAreNeverRemoved(t *testing.T) {
	rec := record{Seen: []string{`env["B"]`, `checks["health"]`, "stop_config", `mounts["/data"].add_size_gb`}}
	ours := sample()
	ours.Env = map[string]string{"A": "1"}
	ours.Checks = map[string]check{}
	ours.StopConfig = nil
	ours.Mounts = map[string]mount{"/data": {VolumeID: "vol_1"}}
	changes, _ := mustChanges(t, sample(), ours, onFly, rec.seen)
	if len(changes) != 0 {
		t.Fatalf("changes %v", places(changes))
	}
	// The same plan without an import behind it does remove them.
	changes, _ = mustChanges(t, sample(), ours, onFly, none)
	if len(changes) != 5 {
		t.Fatalf("changes %v", places(changes))
	}
}

func TestACreateIsOwnedByTerraformUnlessDeclaredOtherwise(t *testing.T) {
	for _, c := range []struct {
		metadata map[string]string
		want     string
	}{
		{nil, mark.Terraform},
		{map[string]string{"k": "v"}, mark.Terraform},
		{map[string]string{mark.OwnerKey: mark.Rollout}, mark.Rollout},
	} {
		m := sample()
		m.Metadata = c.metadata
		raw, err := createConfig(m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := readRemote(raw)
		if err != nil {
			t.Fatal(err)
		}
		if r.Metadata[mark.OwnerKey] != c.want {
			t.Errorf("metadata %v became %v", c.metadata, r.Metadata)
		}
	}
}
