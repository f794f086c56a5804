package machine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// Read implements resource.Resource. A machine whose version is the one that state was read at costs no call of its own:
// the organization's list answers for it.
func (r *machineResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	rec, diags := readRecord(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, id := state.App, state.ID.ValueString()
	known := rec.InstanceID
	if rec.Open != nil || state.Image.IsNull() {
		known = "" // what is unfinished is judged from the machine itself
	}
	row, fresh, err := r.account.Inventory.Machine(ctx, app, id, known)
	if err != nil {
		resp.Diagnostics.AddError("Machine not read", fmt.Sprintf("Machine %s of app %s: %s.", id, app, err))
		return
	}
	if fresh {
		next, err := fromRow(state, row)
		if err == nil {
			rec.State, rec.Owner = row.State, row.Metadata[mark.OwnerKey]
			resp.Diagnostics.Append(resp.State.Set(ctx, next)...)
			resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
			return
		}
	}
	m, err := r.account.Fly.GetMachine(ctx, app, id)
	if err != nil && !flyapi.IsNotFound(err) {
		resp.Diagnostics.AddError("Machine not read", err.Error()+".")
		return
	}
	if err != nil || m.Gone() {
		resp.State.RemoveResource(ctx)
		return
	}
	next, rec, warning, err := fromMachine(state, rec, m)
	if err != nil {
		resp.Diagnostics.AddError("Machine not read", fmt.Sprintf("Machine %s of app %s: %s.", id, app, err))
		return
	}
	if warning != "" {
		resp.Diagnostics.AddWarning("Machine not wholly read", warning)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, next)...)
	resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
}

// fromRow is state with what a list row tells; at an equal version the rest has not changed since.
func fromRow(state model, row flyapi.MachineRow) (model, error) {
	var guest *remoteGuest
	if len(row.Guest) > 0 {
		if err := json.Unmarshal(row.Guest, &guest); err != nil {
			return state, err
		}
	}
	now := state
	r := remote{Image: row.Image, Metadata: row.Metadata, Guest: guest}
	seen := full(r)
	now.Image = projectImage(state, seen)
	now.Metadata = projectMap(state.Metadata, seen.Metadata)
	if state.Guest != nil && seen.Guest != nil {
		now.Guest = seen.Guest
	}
	return now, nil
}

// fromMachine is state and record with what the machine itself says.
func fromMachine(state model, rec record, m *flyapi.Machine) (model, record, string, error) {
	rec.State, rec.Owner = m.State, m.Metadata()[mark.OwnerKey]
	if m.IncompleteConfig || len(m.Config()) == 0 {
		return state, rec, fmt.Sprintf("Fly cannot read the whole configuration of machine %s (app %s) now: its host is %s. It is shown as it was last known, and will not be written.",
			m.ID, state.App, orUnknown(m.HostStatus)), nil
	}
	r, err := readRemote(m.Config())
	if err != nil {
		return state, rec, "", err
	}
	next := project(state, r)
	rec.InstanceID = m.InstanceID
	if rec.Open != nil {
		if o := judge(m, *rec.Open); o.finished() {
			rec.Open = nil
		} else {
			// Shown as missing, so that the next plan sets it again and thereby finishes the create in place.
			next.Image = types.StringNull()
			rec.Open.Why = o.why
		}
	}
	return next, rec, "", nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
