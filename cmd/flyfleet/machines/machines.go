// Package machines is the verb that lists the machines of a fleet.
package machines

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// Command is `flyfleet machines`.
type Command struct {
	Fleet  string `help:"Only machines of this fleet (metadata flyfleet_fleet)."`
	All    bool   `help:"Also machines that belong to no fleet."`
	Checks bool   `default:"true" negatable:"" help:"Ask each started machine for its health checks, one call a machine."`
}

// Machine is one line of the list; the JSON form is a list of them.
type Machine struct {
	Fleet  string `json:"fleet"`
	Tenant string `json:"tenant"`
	App    string `json:"app"`
	ID     string `json:"machine"`
	Region string `json:"region"`
	State  string `json:"state"`
	Image  string `json:"image"`
	Digest string `json:"digest"`
	Host   string `json:"host"`
	Owner  string `json:"image_owner"`
	Checks string `json:"checks"`
	Error  string `json:"error,omitempty"`
}

// Run lists the machines, sorted by app.
func (m *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	api, err := s.Platform()
	if err != nil {
		return err
	}
	defer api.Close()
	list, err := api.OrgMachines(ctx)
	if err != nil {
		return err
	}
	found := m.choose(list.Rows)
	if m.Checks {
		askChecks(ctx, api, found)
	}
	for _, region := range list.ErrorRegions {
		c.Note("flyfleet: region %s could not be asked: its machines are missing here, or shown as they were", region)
	}
	return c.Result(found, func(w io.Writer) { table(w, found, api.Org()) })
}

func (m *Command) choose(rows []flyapi.MachineRow) []Machine {
	found := []Machine{}
	for _, r := range rows {
		fleet := r.Metadata["flyfleet_fleet"]
		if r.Gone() || (m.Fleet != "" && fleet != m.Fleet) || (fleet == "" && !m.All) {
			continue
		}
		found = append(found, Machine{
			Fleet: fleet, Tenant: r.Metadata["flyfleet_tenant"], App: r.App, ID: r.ID, Region: r.Region, State: r.State,
			Image: r.Image, Digest: r.Digest, Host: r.HostStatus, Owner: r.Metadata["flyfleet_image_owner"],
		})
	}
	slices.SortFunc(found, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), cmp.Compare(a.App, b.App), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// asking bounds the calls in flight.
const asking = 8

func askChecks(ctx context.Context, api *flyapi.Client, found []Machine) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, asking)
	for i := range found {
		if found[i].State != flyapi.StateStarted {
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			got, err := api.GetMachine(ctx, found[i].App, found[i].ID)
			if err != nil {
				found[i].Checks, found[i].Error = "unknown", err.Error()
				return
			}
			found[i].Host = cmp.Or(got.HostStatus, found[i].Host)
			found[i].Checks = summary(got.Checks)
		})
	}
	wg.Wait()
}

// summary is "2/2 passing", or which do not pass.
func summary(checks []flyapi.Check) string {
	var bad []string
	for _, c := range checks {
		if c.Status != "passing" {
			bad = append(bad, c.Name+" "+c.Status)
		}
	}
	switch {
	case len(checks) == 0:
		return "none"
	case len(bad) > 0:
		return strings.Join(bad, ", ")
	}
	return fmt.Sprintf("%d/%d passing", len(checks), len(checks))
}

func table(w io.Writer, found []Machine, org string) {
	if len(found) == 0 {
		fmt.Fprintf(w, "No machine of a fleet in organization %s.\n", org)
		return
	}
	rows := make([][]string, 0, len(found))
	for _, m := range found {
		rows = append(rows, []string{m.Fleet, m.App, m.ID, m.Region, m.State, short(m.Digest), m.Host, m.Checks})
	}
	console.Table(w, []string{"fleet", "app", "machine", "region", "state", "image", "host", "checks"}, rows)
}

// short is enough of a digest to tell images apart.
func short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(12, len(hex))]
}
