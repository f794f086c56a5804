package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// contents is what lives in an app.
type contents struct {
	machines []*flyapi.Machine
	volumes  []flyapi.Volume
}

func (c contents) empty() bool { return len(c.machines) == 0 && len(c.volumes) == 0 }

// String lists them, for a person.
func (c contents) String() string {
	var parts []string
	for _, m := range c.machines {
		parts = append(parts, fmt.Sprintf("machine %s (%s)", m.ID, m.Name))
	}
	for _, v := range c.volumes {
		parts = append(parts, fmt.Sprintf("volume %s (%s, %d GB)", v.ID, v.Name, v.SizeGB))
	}
	const most = 5
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("%d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

func (r *appResource) contents(ctx context.Context, name string) (contents, error) {
	machines, err := r.account.Fly.ListMachines(ctx, name)
	if err != nil {
		return contents{}, err
	}
	volumes, err := r.account.Fly.ListVolumes(ctx, name)
	if err != nil {
		return contents{}, err
	}
	return contents{
		machines: slices.DeleteFunc(machines, (*flyapi.Machine).Gone),
		volumes:  slices.DeleteFunc(volumes, flyapi.Volume.Gone),
	}, nil
}

// adopt looks at the app that has the name. found is false, and the error says why, unless it is what this create would
// have made.
func (r *appResource) adopt(ctx context.Context, plan model, taken error) (got flyapi.App, found bool, err error) {
	name := plan.Name.ValueString()
	got, err = r.account.Fly.GetApp(ctx, name)
	if err != nil {
		return got, false, fmt.Errorf("the name %s is taken, and whose app it is cannot be seen from here (app names are global): choose another name: %w", name, errors.Join(taken, err))
	}
	in, err := r.contents(ctx, name)
	if err != nil {
		return got, false, fmt.Errorf("app %s exists already, and looking into it failed: %w", name, err)
	}
	why := foreign(got, in, plan.Org.ValueString(), plan.Network.ValueString(), time.Now())
	if why == "" && !r.account.Claims.Take(claims.App(name).String()) {
		why = "it belongs to another resource of this configuration"
	}
	if why != "" {
		return got, false, fmt.Errorf("app %s exists already and was not adopted: %s. Choose another name, or take the app as it is with\n\nimport {\n  to = flyfleet_app.NAME\n  id = %q\n}\n\n%w", name, why, name, taken)
	}
	return got, true, nil
}

// youth is the greatest age at which something unmarked may be what an interrupted create left behind.
const youth = 24 * time.Hour

// foreign says why an app is not what an interrupted create of ours left behind; "" when it may be.
func foreign(got flyapi.App, in contents, org, network string, now time.Time) string {
	switch {
	case got.Org != "" && got.Org != org && org != "personal":
		return fmt.Sprintf("it is in the organization %s, not %s", got.Org, org)
	case !flyapi.SameNetwork(got.Network, network):
		return fmt.Sprintf("it is on the network %q, not %q", orDefault(got.Network), network)
	}
	ours := map[string]bool{}
	for _, m := range in.machines {
		if !mark.Interrupted(m) {
			return fmt.Sprintf("machine %s (%s) is in it: %s", m.ID, m.Name, mark.Finished(m.Metadata()))
		}
		ours[m.ID] = true
	}
	for _, v := range in.volumes {
		young := now.Sub(v.CreatedAt) < youth
		if !ours[v.AttachedMachine] && (v.AttachedMachine != "" || !young) {
			return fmt.Sprintf("volume %s (%s) in it is not of this create", v.ID, v.Name)
		}
	}
	return ""
}
