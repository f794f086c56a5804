package machine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *machineResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.State.Raw.IsNull() {
		r.planCreate(ctx, req, resp)
		return
	}
	if req.Plan.Raw.IsNull() {
		return
	}
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if r.account != nil {
		if err := r.account.Claims.Exists(key(state.App, state.Name)); err != nil {
			resp.Diagnostics.AddError("Two resources, one machine", err.Error()+".")
			return
		}
	}
	planned, diags := plannedMounts(ctx, req)
	resp.Diagnostics.Append(diags...)
	var image types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("image"), &image)...)
	rec, diags := readRecord(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	for _, v := range mountRule(state.Mounts, planned) {
		if v.replace {
			resp.RequiresReplace.Append(path.Root("mounts"))
			continue
		}
		resp.Diagnostics.AddAttributeError(path.Root("mounts").AtMapKey(v.path), "The machine's volume would change", v.text(state))
	}
	resp.Diagnostics.Append(imageRule(ctx, req, state, image, rec)...)
}

func (r *machineResource) planCreate(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.account == nil {
		return
	}
	var app, name types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("app"), &app)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	if resp.Diagnostics.HasError() || !known(app) || !known(name) {
		return
	}
	if err := r.account.Claims.Creates(key(app.ValueString(), name.ValueString())); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Two resources, one machine", err.Error()+".")
	}
}

// plannedMount is a mount of the plan, of which less may be known than of one in the state.
type plannedMount struct {
	volume  types.String
	replace bool
}

// plannedMounts reads the plan's mounts. A nil map says that they are not known at all.
func plannedMounts(ctx context.Context, req resource.ModifyPlanRequest) (map[string]plannedMount, diag.Diagnostics) {
	var mounts types.Map
	diags := req.Plan.GetAttribute(ctx, path.Root("mounts"), &mounts)
	if diags.HasError() || mounts.IsUnknown() {
		return nil, diags
	}
	out := map[string]plannedMount{}
	for at, v := range mounts.Elements() {
		object, ok := v.(types.Object)
		if !ok || object.IsUnknown() {
			out[at] = plannedMount{volume: types.StringUnknown()}
			continue
		}
		m := plannedMount{volume: types.StringUnknown()}
		if id, ok := object.Attributes()["volume_id"].(types.String); ok {
			m.volume = id
		}
		if replace, ok := object.Attributes()["replace_with_volume"].(types.Bool); ok {
			m.replace = replace.ValueBool()
		}
		out[at] = m
	}
	return out, diags
}

// violation is a mount whose volume the plan would change.
type violation struct {
	path, volume, planned string
	replace               bool
}

// mountRule compares the volumes that a machine mounts with those of the plan.
//
// Terraform destroys dependents first: a volume that is to be replaced (by a change of its region, -replace, taint or
// replace_triggered_by) gets a new id, which makes the machine's plan unknown; if that replaced the machine, the machine
// would be gone before the volume's own protection is asked. So the plan fails here, unless the mount says otherwise.
func mountRule(state map[string]mount, planned map[string]plannedMount) []violation {
	var out []violation
	for _, at := range slices.Sorted(maps.Keys(state)) {
		now := state[at]
		next, there := planned[at]
		v := violation{path: at, volume: now.VolumeID, replace: next.replace}
		switch {
		case planned == nil:
			v.planned = "a volume that is not known yet"
		case !there:
			v.planned, v.replace = "no volume", now.ReplaceWithVolume
		case next.volume.IsUnknown():
			v.planned = "a volume that does not exist yet"
		case next.volume.ValueString() != now.VolumeID:
			v.planned = "volume " + next.volume.ValueString()
		default:
			continue
		}
		out = append(out, v)
	}
	return out
}

func (v violation) text(state model) string {
	return fmt.Sprintf("Machine %s (%s of app %s) mounts volume %s at %s; the plan has %s there. Fly cannot change the volume of a machine, so the machine would be destroyed, and with a "+
		"replaced volume it would go before the volume's own protection is asked. Nothing was planned. Keep volume %s in the configuration; or, to give the machine another volume, "+
		"apply `replace_with_volume = true` on this mount first.", state.ID.ValueString(), state.Name, state.App, v.volume, v.path, v.planned, v.volume)
}

// imageRule says what a change of the image would undo or cost.
func imageRule(ctx context.Context, req resource.ModifyPlanRequest, state model, image types.String, rec record) diag.Diagnostics {
	var diags diag.Diagnostics
	if image.Equal(state.Image) || state.Image.IsNull() {
		return diags
	}
	at := path.Root("image")
	var metadata types.Map
	diags.Append(req.Plan.GetAttribute(ctx, path.Root("metadata"), &metadata)...)
	declared, _ := metadata.Elements()[mark.OwnerKey].(types.String)
	switch ownership(declared.ValueString(), rec.Owner) {
	case refuse:
		diags.AddAttributeError(at, "The image belongs to the rollout", fmt.Sprintf("The image of machine %s (app %s) belongs to the rollout (metadata %s = %q), which this change would undo. "+
			"Change it with `flyfleet redeploy-fleet`, or declare metadata %s = %q to take it back.", state.ID.ValueString(), state.App, mark.OwnerKey, mark.Rollout, mark.OwnerKey, mark.Terraform))
	case warn:
		diags.AddAttributeWarning(at, "Undoes a rollout", fmt.Sprintf("The image of machine %s (app %s) was set by a rollout. Applying this plan puts the configuration's image back and makes Terraform its owner again.",
			state.ID.ValueString(), state.App))
	}
	if rec.State == flyapi.StateSuspended {
		diags.AddAttributeWarning(at, "The machine is suspended", fmt.Sprintf("Machine %s (app %s) is suspended. Its memory cannot outlive its image: after the swap it is stopped, not started; its volume keeps its files.",
			state.ID.ValueString(), state.App))
	}
	return diags
}

type verdict int

const (
	allow verdict = iota
	warn
	refuse
)

// ownership judges a change of the image by Terraform. declared is the owner in the plan, seen the one on the machine.
func ownership(declared, seen string) verdict {
	switch {
	case declared == mark.Rollout:
		return refuse
	case seen != mark.Rollout:
		return allow
	case declared == mark.Terraform:
		return warn
	}
	return refuse
}
