package app

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

func TestOnlyAnAppThatHoldsNothingForeignIsAdopted(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	app := flyapi.App{Name: "a", Org: "o", Network: "a"}
	vol := func(age time.Duration, machine string) contents {
		return contents{volumes: []flyapi.Volume{{ID: "v", CreatedAt: now.Add(-age), AttachedMachine: machine}}}
	}
	for _, c := range []struct {
		name string
		app  flyapi.App
		in   contents
		want string // "" means adopted
	}{
		{"empty", app, contents{}, ""},
		{"other org", flyapi.App{Org: "x", Network: "a"}, contents{}, "organization x"},
		{"other network", flyapi.App{Org: "o", Network: "b"}, contents{}, `network "b"`},
		{"shared network", flyapi.App{Org: "o"}, contents{}, `network "default"`},
		{"unmarked machine", app, contents{machines: []*flyapi.Machine{{ID: "m"}}}, "machine m"},
		{"young volume", app, vol(time.Hour, ""), ""},
		{"old volume", app, vol(48*time.Hour, ""), "volume v"},
		{"volume of a machine that is gone", app, vol(time.Hour, "m"), "volume v"},
	} {
		if got := foreign(c.app, c.in, "o", "a", now); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestWhatFlyLeavesOutOfAnAnswerIsNoDrift(t *testing.T) {
	state := model{ID: types.StringValue("1"), Name: types.StringValue("a"), Org: types.StringValue("o"), Network: types.StringValue("a"), Protect: types.BoolValue(false)}
	if got := seen(state, flyapi.App{Name: "a"}); got != state {
		t.Fatalf("%+v", got)
	}
	if got := seen(state, flyapi.App{Name: "a", Org: "p", Network: "b"}); got.Org.ValueString() != "p" || got.Network.ValueString() != "b" {
		t.Fatalf("%+v", got)
	}
}
