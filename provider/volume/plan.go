package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
)

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *volumeResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var plan, state model
	if !req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	}
	if req.State.Raw.IsNull() {
		if !req.Plan.Raw.IsNull() && !resp.Diagnostics.HasError() {
			r.planCreate(plan, resp)
		}
		return
	}
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.Plan.Raw.IsNull() {
		if state.DeletionProtection.ValueBool() {
			resp.Diagnostics.AddError("Volume is protected", protected(state, "would be destroyed"))
		}
		return
	}
	if r.account != nil {
		err := r.account.Claims.Exists(key(state.App.ValueString(), state.Name.ValueString(), state.Region.ValueString()))
		if err != nil {
			resp.Diagnostics.AddError("Two resources, one volume", err.Error()+".")
			return
		}
	}
	if moves := replacing(plan, state); len(moves) > 0 && state.DeletionProtection.ValueBool() {
		for _, name := range moves {
			resp.Diagnostics.AddAttributeError(path.Root(name), "Volume is protected", protected(state, fmt.Sprintf("would be replaced, because %s changes", name)))
		}
		return
	}
	if !plan.SizeGB.IsUnknown() && plan.SizeGB.ValueInt64() < state.SizeGB.ValueInt64() {
		resp.Diagnostics.AddAttributeError(path.Root("size_gb"), "A volume cannot shrink",
			fmt.Sprintf("size_gb: volume %s of app %s has %d GB, and Fly only extends volumes: write %d or more. To have a smaller one, create another volume and copy the files.",
				state.ID.ValueString(), state.App.ValueString(), state.SizeGB.ValueInt64(), state.SizeGB.ValueInt64()))
	}
}

func (r *volumeResource) planCreate(plan model, resp *resource.ModifyPlanResponse) {
	if r.account == nil || plan.App.IsUnknown() || plan.Name.IsUnknown() || plan.Region.IsUnknown() {
		return
	}
	err := r.account.Claims.Creates(key(plan.App.ValueString(), plan.Name.ValueString(), plan.Region.ValueString()))
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Two resources, one volume", err.Error()+".")
	}
}

// replacing names the attributes whose change makes another volume. The framework's own list is empty while a plan is
// being modified, so they are compared here.
func replacing(plan, state model) []string {
	var out []string
	for _, a := range []struct {
		name string
		same bool
	}{
		{"app", plan.App.Equal(state.App)},
		{"region", plan.Region.Equal(state.Region)},
		{"name", plan.Name.Equal(state.Name)},
		{"encrypted", plan.Encrypted.Equal(state.Encrypted)},
	} {
		if !a.same {
			out = append(out, a.name)
		}
	}
	return out
}

func protected(state model, what string) string {
	app, id := state.App.ValueString(), state.ID.ValueString()
	return strings.Join([]string{
		fmt.Sprintf("Volume %s (%s of app %s, %s) %s, and its data with it; it has deletion_protection = true, so nothing was done to it.", id, state.Name.ValueString(), app, state.Region.ValueString(), what),
		"To keep it, undo the change; to stop managing it here without destroying it, use a `removed` block with `destroy = false`.",
		"To destroy it, apply `deletion_protection = false` by itself first.",
	}, " ")
}
