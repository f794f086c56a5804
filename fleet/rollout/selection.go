package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// Selection says which machines a run is about.
type Selection struct {
	// Fleet is the fleet's name; required, so that no run reaches machines of another.
	Fleet string
	// App narrows it to one app, MachineID to one machine; both may be empty.
	App, MachineID string
}

func (s Selection) check() error {
	if s.Fleet == "" {
		return errors.New("no fleet named: say which one (metadata flyfleet_fleet of its machines)")
	}
	return nil
}

// pick gives the selected rows in the order of app and id. Destroyed machines are no part of a fleet.
func (s Selection) pick(rows []flyapi.MachineRow) []flyapi.MachineRow {
	var out []flyapi.MachineRow
	for _, r := range rows {
		if r.Gone() || r.Metadata[swap.MetadataFleet] != s.Fleet ||
			(s.App != "" && r.App != s.App) || (s.MachineID != "" && r.ID != s.MachineID) {
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b flyapi.MachineRow) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.ID, b.ID))
	})
	return out
}

// nothing words an empty selection, with what there is instead.
func (s Selection) nothing(list flyapi.MachineList) error {
	what := "fleet " + s.Fleet + " has no machine"
	if s.App != "" {
		what += " in app " + s.App
	}
	if s.MachineID != "" {
		what += " with id " + s.MachineID
	}
	names := map[string]int{}
	for _, r := range list.Rows {
		if f := r.Metadata[swap.MetadataFleet]; f != "" && !r.Gone() {
			names[f]++
		}
	}
	var have []string
	for f, n := range names {
		have = append(have, fmt.Sprintf("%s (%d)", f, n))
	}
	slices.Sort(have)
	hint := "no machine of the organization carries metadata " + swap.MetadataFleet
	if len(have) > 0 {
		hint = "fleets of the organization: " + strings.Join(have, ", ")
	}
	if len(list.ErrorRegions) > 0 {
		hint += "; Fly could not list the regions " + strings.Join(list.ErrorRegions, ", ")
	}
	return fmt.Errorf("%s; %s", what, hint)
}
