package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// Update implements resource.Resource. A change of the image alone is a swap: the image is set in the configuration that
// the machine has at that moment. Other changes are merged path by path, the image with them. What only Terraform
// reads (busy, conflict, timeouts) costs no call.
func (r *machineResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	rec, diags := readRecord(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	budget, diags := plan.Timeouts.Update(ctx, defaultUpdate)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	until := time.Now().Add(budget)
	out, diags := r.write(ctx, plan, state, rec, budget)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if out.InstanceID != "" {
		rec.InstanceID, rec.State = out.InstanceID, out.StateAfter
	}
	if owner := plan.Metadata[mark.OwnerKey]; owner != "" {
		rec.Owner = owner
	}
	if rec.Open != nil {
		if err := r.startAgain(ctx, plan.App, plan.ID.ValueString(), until); err != nil {
			resp.Diagnostics.AddError("Machine not finished", fmt.Sprintf("Machine %s (%s of app %s) has its configuration, but %s. Run `terraform apply` again.",
				plan.ID.ValueString(), plan.Name, plan.App, err))
			return
		}
		rec.Open, rec.State = nil, flyapi.StateStarted
	}
	rec.Seen = undeclared(rec.Seen, req.Config.Raw)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
}

// write brings the machine to the plan.
func (r *machineResource) write(ctx context.Context, plan, state model, rec record, budget time.Duration) (swap.Outcome, diag.Diagnostics) {
	var diags diag.Diagnostics
	base, ours := tree(state), tree(plan)
	imageMoves := state.Image.IsNull() || !sameAt([]string{"image"}, base["image"], ours["image"])
	rest, err := restChanges(base, ours, rec)
	if err != nil {
		diags.AddError("Machine not updated", err.Error()+".")
		return swap.Outcome{}, diags
	}
	target, err := r.target(plan, state, budget)
	if err != nil {
		diags.AddError("Machine not updated", err.Error()+".")
		return swap.Outcome{}, diags
	}
	var out swap.Outcome
	switch {
	case rest:
		out, diags = r.mergeInto(ctx, target, base, ours, rec)
	case imageMoves:
		out, err = r.account.Swap.Swap(ctx, target)
		diags = report(out, err, "Image not swapped")
	}
	return out, diags
}

// restChanges reports that the plan changes more of the machine than its image.
func restChanges(base, ours map[string]any, rec record) (bool, error) {
	b, o := withoutImage(base), withoutImage(ours)
	as, err := json.Marshal(wire(b))
	if err != nil {
		return false, fmt.Errorf("compare state and plan: %w", err)
	}
	changes, _, err := threeWay(b, o, as, rec.seen)
	return len(changes) > 0, err
}

func withoutImage(t map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range t {
		if k != "image" {
			out[k] = v
		}
	}
	return out
}

func (r *machineResource) target(plan, state model, budget time.Duration) (swap.Target, error) {
	t := swap.Target{
		App: plan.App, Machine: plan.ID.ValueString(), Image: plan.Image.ValueString(), As: swap.OwnerTerraform, From: state.Image.ValueString(),
		Overwrite: plan.Conflict.ValueString() == "overwrite", Busy: swap.Busy(r.account.Defaults.Busy), DrainTimeout: r.account.Defaults.Drain,
		SettleTimeout: budget, GateTimeout: budget,
	}
	if b := plan.Busy.ValueString(); b != "" {
		t.Busy = swap.Busy(b)
	}
	if d := plan.Drain.ValueString(); d != "" {
		drain, err := time.ParseDuration(d)
		if err != nil {
			return t, fmt.Errorf("drain_timeout: %w", err)
		}
		t.DrainTimeout = drain
	}
	return t, nil
}

// mergeInto compares with the machine as it is, and hands the engine the paths that have to change. The engine holds them
// against the machine once more, under its lease.
func (r *machineResource) mergeInto(ctx context.Context, target swap.Target, base, ours map[string]any, rec record) (swap.Outcome, diag.Diagnostics) {
	var diags diag.Diagnostics
	m, err := r.account.Fly.GetMachine(ctx, target.App, target.Machine)
	if err != nil {
		diags.AddError("Machine not updated", err.Error()+".")
		return swap.Outcome{}, diags
	}
	changes, conflicts, err := threeWay(base, ours, m.Config(), rec.seen)
	var list []merge.Change
	if err == nil {
		list, err = edits(m.Config(), changes)
	}
	if err != nil {
		diags.AddError("Machine not updated", fmt.Sprintf("Machine %s of app %s: %s.", target.Machine, target.App, err))
		return swap.Outcome{}, diags
	}
	if len(conflicts) > 0 && !target.Overwrite {
		places := make([]string, len(conflicts))
		for i, c := range conflicts {
			places[i] = "  " + c.String()
		}
		diags.AddError("The machine was changed by somebody else", fmt.Sprintf("On machine %s (app %s) these values, which the plan is about to change, are not what Terraform last read or set:\n\n%s\n\n"+
			"Nothing was written. Plan again to see what they are now, or set `conflict = \"overwrite\"`.", target.Machine, target.App, strings.Join(places, "\n")))
		return swap.Outcome{}, diags
	}
	if len(list) == 0 {
		return swap.Outcome{InstanceID: m.InstanceID, StateAfter: m.State}, nil
	}
	out, err := r.account.Swap.Update(ctx, target, list)
	return out, report(out, err, "Machine not updated")
}

// report turns an outcome into diagnostics.
func report(out swap.Outcome, err error, summary string) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, w := range out.Warnings {
		diags.AddWarning("Machine updated, with a remark", fmt.Sprintf("Machine %s of app %s: %s.", out.Machine, out.App, w))
	}
	if out.Interrupted > 0 {
		diags.AddWarning("Commands were interrupted", fmt.Sprintf("%d running command(s) on machine %s (app %s) were interrupted by the update; their output up to then is kept.", out.Interrupted, out.Machine, out.App))
	}
	if err != nil {
		diags.AddError(summary, err.Error()+".")
	}
	return diags
}
