package machine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func mustRemote(t *testing.T, config string) remote {
	t.Helper()
	r, err := readRemote(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var byValue = cmp.Comparer(func(a, b types.String) bool { return a.Equal(b) })

func TestAReadOfAnUntouchedMachineChangesNothing(t *testing.T) {
	state := sample()
	if diff := cmp.Diff(tree(state), tree(project(state, mustRemote(t, onFly)))); diff != "" {
		t.Fatal(diff)
	}
	if *project(state, mustRemote(t, onFly)).Checks["health"].Interval != "60s" {
		t.Fatal("the spelling of a duration changed, which a plan would show")
	}
}

func TestWhatIsNotManagedIsNotShown(t *testing.T) {
	state := model{Image: sample().Image, Env: map[string]string{"A": "1"}}
	got := project(state, mustRemote(t, onFly))
	if diff := cmp.Diff(state, got, byValue, cmp.AllowUnexported(model{})); diff != "" {
		t.Fatal(diff)
	}
}

func TestManagedValuesThatChangedOnTheMachineAreShown(t *testing.T) {
	state := sample()
	theirs := strings.NewReplacer(
		`"A":"1"`, `"A":"999"`, `"B":"60s",`, ``, `"memory_mb":256`, `"memory_mb":512`, `"volume":"vol_1"`, `"volume":"vol_2"`,
		`"autostop":"off"`, `"autostop":"suspend"`, `"path":"/healthz"`, `"path":"/other"`, `"timeout":"30s"`, `"timeout":"5s"`, `sha256:111`, `sha256:222`,
	).Replace(onFly)
	got := project(state, mustRemote(t, theirs))
	if got.Env["A"] != "999" || len(got.Env) != 1 || got.Guest.MemoryMB != 512 || got.Mounts["/data"].VolumeID != "vol_2" ||
		got.Services[0].Autostop != "suspend" || *got.Checks["health"].Path != "/other" || *got.StopConfig.Timeout != "5s" ||
		!strings.Contains(got.Image.ValueString(), "sha256:222") {
		t.Fatalf("%+v", got)
	}
}

// A provider with a bool attribute could not refresh a machine that had been set to "suspend".
func TestAutostopIsReadInEveryForm(t *testing.T) {
	for in, want := range map[string]string{`false`: "off", `true`: "stop", `"off"`: "off", `"stop"`: "stop", `"suspend"`: "suspend", `null`: "off"} {
		got := full(mustRemote(t, `{"services":[{"internal_port":1,"autostop":`+in+`}]}`))
		if got.Services[0].Autostop != want {
			t.Errorf("%s was read as %q", in, got.Services[0].Autostop)
		}
	}
}

func TestTheSpellingOfTheImageIsKeptWhereTheDigestIsEqual(t *testing.T) {
	state := sample()
	theirs := strings.Replace(onFly, "registry.fly.io/a@", "registry.fly.io/a:v7@", 1)
	if got := project(state, mustRemote(t, theirs)); !got.Image.Equal(state.Image) {
		t.Fatalf("image %s", got.Image)
	}
}

func TestARolloutsSwapIsNoDriftWhereTheRolloutOwnsTheImage(t *testing.T) {
	state := sample()
	state.Metadata = map[string]string{mark.OwnerKey: mark.Rollout}
	theirs := strings.NewReplacer("sha256:111", "sha256:222", `"fly_x":"y"`, `"flyfleet_image_owner":"rollout"`).Replace(onFly)
	if got := project(state, mustRemote(t, theirs)); !got.Image.Equal(state.Image) {
		t.Fatalf("image %s", got.Image)
	}
	state.Metadata = map[string]string{mark.OwnerKey: mark.Terraform}
	if got := project(state, mustRemote(t, theirs)); got.Image.Equal(state.Image) {
		t.Fatal("a swap of what Terraform owns was hidden")
	}
}
