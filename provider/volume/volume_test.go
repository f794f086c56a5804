package volume

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func planned() model {
	return model{
		ID: types.StringValue("vol_1"), App: types.StringValue("a"), Region: types.StringValue("fra"), Name: types.StringValue("data"),
		SizeGB: types.Int64Value(3), Encrypted: types.BoolValue(true), DeletionProtection: types.BoolValue(true),
	}
}

func TestOnlyOneYoungVolumeThatIsOursIsTaken(t *testing.T) {
	young, old := now.Add(-time.Hour), now.Add(-48*time.Hour)
	at := func(id string, made time.Time, machine string) flyapi.Volume {
		return flyapi.Volume{ID: id, Name: "data", Region: "fra", SizeGB: 3, State: "created", CreatedAt: made, AttachedMachine: machine}
	}
	for _, c := range []struct {
		name  string
		match []flyapi.Volume
		want  string // "" means taken
	}{
		{"unattached", []flyapi.Volume{at("v", young, "")}, ""},
		{"old", []flyapi.Volume{at("v", old, "")}, "2025-12-31"},
		{"two", []flyapi.Volume{at("v", young, ""), at("w", young, "")}, "2 volumes"},
		{"mounted by an unknown machine", []flyapi.Volume{at("v", young, "m")}, "mounts it"},
	} {
		_, err := leftBehind(c.match, nil, now)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCandidatesAreOfTheSameNameRegionAndSizeAndNobodyElses(t *testing.T) {
	fits := flyapi.Volume{ID: "v", Name: "data", Region: "fra", SizeGB: 3, State: "created"}
	change := func(edit func(*flyapi.Volume)) flyapi.Volume { v := fits; edit(&v); return v }
	for _, c := range []struct {
		name string
		v    flyapi.Volume
		want bool
	}{
		{"fits", fits, true},
		{"name", change(func(v *flyapi.Volume) { v.Name = "other" }), false},
		{"region", change(func(v *flyapi.Volume) { v.Region = "ams" }), false},
		{"size", change(func(v *flyapi.Volume) { v.SizeGB = 4 }), false},
		{"going", change(func(v *flyapi.Volume) { v.State = "pending_destroy" }), false},
	} {
		if got := len(candidates([]flyapi.Volume{c.v}, planned())) == 1; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestASizeIsAMinimum(t *testing.T) {
	for _, c := range []struct{ remote, want int }{{3, 3}, {10, 3}, {2, 2}} {
		if got := seen(planned(), flyapi.Volume{ID: "vol_1", SizeGB: c.remote}); got.SizeGB.ValueInt64() != int64(c.want) {
			t.Errorf("remote %d GB reads as %d", c.remote, got.SizeGB.ValueInt64())
		}
	}
}

func TestEveryReplacingChangeIsSeenByThePlan(t *testing.T) {
	other := planned()
	other.App, other.Region, other.Name, other.Encrypted = types.StringUnknown(), types.StringValue("ams"), types.StringValue("x"), types.BoolValue(false)
	if got := replacing(other, planned()); !slices.Equal(got, []string{"app", "region", "name", "encrypted"}) {
		t.Fatalf("got %v", got)
	}
	grown := planned()
	grown.SizeGB, grown.SnapshotRetention = types.Int64Value(9), types.Int64Value(7)
	if got := replacing(grown, planned()); len(got) != 0 {
		t.Fatalf("an extension was taken for a replacement: %v", got)
	}
}

// A peer applied the first of two changes and lost the second.
func TestBothSnapshotSettingsAreSentTogether(t *testing.T) {
	state, plan := planned(), planned()
	state.SnapshotRetention, state.AutoBackup = types.Int64Value(5), types.BoolValue(true)
	plan.SnapshotRetention, plan.AutoBackup = types.Int64Value(7), types.BoolValue(false)
	change, changed := snapshots(plan, state)
	if !changed || *change.SnapshotRetention != 7 || *change.AutoBackup {
		t.Fatalf("%+v", change)
	}
}
