// Package volume is the resource flyfleet_volume: a tenant's workspace, which outlives every image.
package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/naming"
)

// maxSizeGB is the largest volume that Fly offers (superfly/docs: volumes).
const maxSizeGB = 500

// NewResource makes the resource.
func NewResource() resource.Resource { return &volumeResource{} }

type volumeResource struct {
	account *account.Account
}

type model struct {
	ID                 types.String `tfsdk:"id"`
	App                types.String `tfsdk:"app"`
	Region             types.String `tfsdk:"region"`
	Name               types.String `tfsdk:"name"`
	SizeGB             types.Int64  `tfsdk:"size_gb"`
	Encrypted          types.Bool   `tfsdk:"encrypted"`
	SnapshotRetention  types.Int64  `tfsdk:"snapshot_retention"`
	AutoBackup         types.Bool   `tfsdk:"auto_backup"`
	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
}

// Metadata implements resource.Resource.
func (r *volumeResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_volume"
}

// Schema implements resource.Resource.
func (r *volumeResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A Fly volume. It is data, so it is protected twice: the plan fails that would destroy or replace it, and the delete itself refuses while the *state* says `deletion_protection = true`, " +
			"which also stops `-replace`, taint and `replace_triggered_by`. A volume that an interrupted create left behind is found again by app, name, region and size.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, MarkdownDescription: "Fly's id of the volume.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"app": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name of the app.", PlanModifiers: replace,
				Validators: []validator.String{naming.Valid("app name", naming.App)},
			},
			"region": schema.StringAttribute{
				Required: true, MarkdownDescription: "Region code. A volume lives on one host and cannot move.", PlanModifiers: replace,
				Validators: []validator.String{naming.ValidRegion()},
			},
			"name": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name: lowercase letters, digits and underscores. Fly takes several volumes of one name; here a name is one resource's own within app and region.", PlanModifiers: replace,
				Validators: []validator.String{naming.Valid("volume name", naming.Volume)},
			},
			"size_gb": schema.Int64Attribute{
				Required: true, MarkdownDescription: "Size in GB. It is a minimum: it grows in place, a volume that has grown by itself is no drift, and Fly cannot shrink one.",
				Validators: []validator.Int64{int64validator.Between(1, maxSizeGB)},
			},
			"encrypted": schema.BoolAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Encrypted at rest. Default: Fly's, `true`. Fixed for the volume's life.",
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown(), boolplanmodifier.RequiresReplaceIfConfigured()},
			},
			"snapshot_retention": schema.Int64Attribute{
				Optional: true, Computed: true, MarkdownDescription: "Days for which daily snapshots are kept (1 to 60). Default: Fly's, 5.",
				Validators: []validator.Int64{int64validator.Between(1, 60)}, PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
			},
			"auto_backup": schema.BoolAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Whether Fly takes a snapshot each day. Default: Fly's.",
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown()},
			},
			"deletion_protection": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Refuse to destroy or replace the volume. To destroy one, apply `deletion_protection = false` first. Default `true`.",
			},
		},
	}
}

// Configure implements resource.ResourceWithConfigure.
func (r *volumeResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		r.account = a
	}
}

func key(app, name, region string) claims.Key {
	return claims.Key{Kind: "volume", Name: fmt.Sprintf("%q in app %s, region %s", name, app, region)}
}

// Read implements resource.Resource.
func (r *volumeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, id := state.App.ValueString(), state.ID.ValueString()
	v, listed, err := r.account.Inventory.Volume(ctx, app, id)
	if err == nil && (!listed || v.Gone()) {
		v, err = r.account.Fly.GetVolume(ctx, app, id)
	}
	if err != nil && !flyapi.IsNotFound(err) {
		resp.Diagnostics.AddError("Volume not read", fmt.Sprintf("Volume %s of app %s: %s.", id, app, err))
		return
	}
	if err != nil || v.Gone() {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, seen(state, v))...)
}

// seen is state with what Fly says of the volume. A volume that is larger than asked for has grown by itself, which is
// what a minimum allows.
func seen(state model, v flyapi.Volume) model {
	state.ID = types.StringValue(v.ID)
	state.Name, state.Region = types.StringValue(v.Name), types.StringValue(v.Region)
	if state.SizeGB.IsNull() || int64(v.SizeGB) < state.SizeGB.ValueInt64() {
		state.SizeGB = types.Int64Value(int64(v.SizeGB))
	}
	state.Encrypted = types.BoolValue(v.Encrypted)
	state.SnapshotRetention = types.Int64Value(int64(v.SnapshotRetention))
	state.AutoBackup = types.BoolValue(v.AutoBackup)
	if state.DeletionProtection.IsNull() {
		state.DeletionProtection = types.BoolValue(true)
	}
	return state
}

// Update implements resource.Resource. Each change is applied in order and none is forgotten: a peer returned after the
// extension and lost the other one.
func (r *volumeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, id := state.App.ValueString(), state.ID.ValueString()
	next := state
	next.DeletionProtection = plan.DeletionProtection
	if plan.SizeGB.ValueInt64() > state.SizeGB.ValueInt64() {
		restart, err := r.grow(ctx, app, id, int(plan.SizeGB.ValueInt64()))
		if err != nil {
			resp.Diagnostics.AddError("Volume not extended", fmt.Sprintf("Volume %s of app %s: %s.", id, app, err))
		} else {
			next.SizeGB = plan.SizeGB
		}
		if restart {
			resp.Diagnostics.AddWarning("Volume extended, restart needed", fmt.Sprintf("Volume %s of app %s has its new size; its machine sees it after a restart.", id, app))
		}
	}
	if change, changed := snapshots(plan, state); changed {
		if _, err := r.account.Fly.UpdateVolume(ctx, app, id, change); err != nil {
			resp.Diagnostics.AddError("Volume's snapshots not changed", fmt.Sprintf("Volume %s of app %s: %s.", id, app, err))
		} else {
			next.SnapshotRetention, next.AutoBackup = plan.SnapshotRetention, plan.AutoBackup
		}
	}
	// What was reached is kept, also beside an error: state must not promise less than there is.
	resp.Diagnostics.Append(resp.State.Set(ctx, next)...)
}

// grow extends a volume unless it has grown past that already.
func (r *volumeResource) grow(ctx context.Context, app, id string, size int) (restart bool, err error) {
	v, err := r.account.Fly.GetVolume(ctx, app, id)
	if err != nil || v.SizeGB >= size {
		return false, err
	}
	_, restart, err = r.account.Fly.ExtendVolume(ctx, app, id, size)
	return restart, err
}

func snapshots(plan, state model) (change flyapi.UpdateVolumeRequest, changed bool) {
	if !plan.SnapshotRetention.Equal(state.SnapshotRetention) && !plan.SnapshotRetention.IsUnknown() {
		days := int(plan.SnapshotRetention.ValueInt64())
		change.SnapshotRetention, changed = &days, true
	}
	if !plan.AutoBackup.Equal(state.AutoBackup) && !plan.AutoBackup.IsUnknown() {
		backup := plan.AutoBackup.ValueBool()
		change.AutoBackup, changed = &backup, true
	}
	return change, changed
}

// Delete implements resource.Resource. The protection is the state's, and it is asked before the first call.
func (r *volumeResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if state.DeletionProtection.ValueBool() {
		resp.Diagnostics.AddError("Volume is protected", protected(state, "was to be destroyed"))
		return
	}
	resp.Diagnostics.Append(r.account.Ready()...)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.account.Claims.Take(state.ID.ValueString()) {
		resp.Diagnostics.AddWarning("Volume kept", fmt.Sprintf("Volume %s of app %s was taken over by its successor (create_before_destroy) in this very apply. It was not deleted.", state.ID.ValueString(), state.App.ValueString()))
		return
	}
	if err := r.account.Fly.DeleteVolume(ctx, state.App.ValueString(), state.ID.ValueString()); err != nil {
		resp.Diagnostics.AddError("Volume not deleted", err.Error()+".")
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *volumeResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	app, id, ok := strings.Cut(req.ID, "/")
	if !ok || app == "" || id == "" || strings.Contains(id, "/") {
		resp.Diagnostics.AddError("Not the id of a volume", fmt.Sprintf("A volume is imported as app/id, such as tenant-a/vol_4qp7nx2k; got %q. `fly volumes list -a APP` shows the ids.", req.ID))
		return
	}
	resp.Diagnostics.Append(r.account.Ready()...)
	if resp.Diagnostics.HasError() {
		return
	}
	v, err := r.account.Fly.GetVolume(ctx, app, id)
	if err == nil && v.Gone() {
		err = fmt.Errorf("volume %s of app %s is being destroyed (its state is %s)", id, app, v.State)
	}
	if err != nil {
		resp.Diagnostics.AddError("Volume not imported", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, seen(model{App: types.StringValue(app)}, v))...)
}
