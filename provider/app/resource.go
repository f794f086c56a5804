// Package app is the resource flyfleet_app: a tenant's app on its own private network.
package app

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/naming"
)

// NewResource makes the resource.
func NewResource() resource.Resource { return &appResource{} }

type appResource struct {
	account *account.Account
}

type model struct {
	ID      types.String `tfsdk:"id"`
	Name    types.String `tfsdk:"name"`
	Org     types.String `tfsdk:"org"`
	Network types.String `tfsdk:"network"`
	Protect types.Bool   `tfsdk:"protect"`
}

// Metadata implements resource.Resource.
func (r *appResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_app"
}

// Schema implements resource.Resource.
func (r *appResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A Fly app, on a private network of its own unless `network` says otherwise, so that no tenant reaches another. " +
			"An app that an interrupted create left behind is found again by its name when organization and network are the planned ones and nothing foreign is in it; any other app of that name is an error.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, MarkdownDescription: "Fly's id of the app.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"name": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name, unique on all of Fly: lowercase letters, digits and dashes, at most 63.",
				Validators:    []validator.String{naming.Valid("app name", naming.App)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"org": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Slug of the organization. Default: the provider's.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
			},
			"network": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Private network, made on first use and fixed for the app's life. Default: a network of its own, named like the app.",
				Validators:    []validator.String{naming.Valid("network name", naming.Network)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured()},
			},
			"protect": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Refuse to delete the app while machines or volumes are in it, because Fly deletes them with it. What the same plan destroys is gone by then. Default `true`.",
			},
		},
	}
}

// Configure implements resource.ResourceWithConfigure.
func (r *appResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		r.account = a
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *appResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.account == nil {
		return
	}
	var plan, state model
	creating := req.State.Raw.IsNull()
	if !creating && !req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		if resp.Diagnostics.HasError() {
			return
		}
		if err := r.account.Claims.Exists(claims.App(state.Name.ValueString())); err != nil {
			resp.Diagnostics.AddError("Two resources, one app", err.Error()+".")
			return
		}
	}
	if req.Plan.Raw.IsNull() || !creating {
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if plan.Org.IsUnknown() && r.account.Fly != nil && orgLeftOut(ctx, req) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("org"), r.account.Fly.Org())...)
	}
	if plan.Name.IsUnknown() {
		return
	}
	if plan.Network.IsUnknown() && leftOut(ctx, req, "network") {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("network"), plan.Name)...)
	}
	if err := r.account.Claims.Creates(claims.App(plan.Name.ValueString())); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("name"), "Two resources, one app", err.Error()+".")
	}
}

func orgLeftOut(ctx context.Context, req resource.ModifyPlanRequest) bool {
	return leftOut(ctx, req, "org")
}

// leftOut reports that the configuration does not speak of an attribute, as against one whose value is not known yet.
func leftOut(ctx context.Context, req resource.ModifyPlanRequest, name string) bool {
	var v types.String
	return !req.Config.GetAttribute(ctx, path.Root(name), &v).HasError() && v.IsNull()
}

// Create implements resource.Resource. It finds or creates.
func (r *appResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if plan.Org.IsUnknown() {
		plan.Org = types.StringValue(r.account.Fly.Org())
	}
	if plan.Network.IsUnknown() {
		plan.Network = plan.Name
	}
	name := plan.Name.ValueString()
	got, err := r.account.Fly.CreateApp(ctx, name, plan.Org.ValueString(), plan.Network.ValueString())
	if flyapi.IsNameTaken(err) {
		var found bool
		got, found, err = r.adopt(ctx, plan, err)
		if found {
			resp.Diagnostics.AddWarning("App adopted", fmt.Sprintf("App %s existed already, in the planned organization and network, with nothing foreign in it: left by a create that was interrupted. It was adopted.", name))
			r.account.Claims.Adopt(claims.App(name))
		}
	}
	if err != nil {
		resp.Diagnostics.AddError("App not created", err.Error()+".")
		return
	}
	r.account.Claims.Take(claims.App(name).String()) // so that no second resource of the name adopts it
	plan.ID = types.StringValue(got.ID)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Read implements resource.Resource.
func (r *appResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := state.Name.ValueString()
	got, listed, err := r.account.Inventory.App(ctx, name)
	if err == nil && !listed {
		got, err = r.account.Fly.GetApp(ctx, name)
	}
	switch {
	case flyapi.IsNotFound(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		resp.Diagnostics.AddError("App not read", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, seen(state, got))...)
}

// seen is state with what Fly says of the app. What Fly leaves out of an answer is no change.
func seen(state model, got flyapi.App) model {
	if got.ID != "" {
		state.ID = types.StringValue(got.ID)
	}
	// Assumption: the alias "personal" is answered with the organization's real slug.
	if got.Org != "" && state.Org.ValueString() != "personal" {
		state.Org = types.StringValue(got.Org)
	}
	if got.Network != "" && !flyapi.SameNetwork(got.Network, state.Network.ValueString()) || state.Network.IsNull() {
		state.Network = types.StringValue(orDefault(got.Network))
	}
	if state.Protect.IsNull() {
		state.Protect = types.BoolValue(true)
	}
	return state
}

func orDefault(network string) string {
	if network == "" {
		return "default"
	}
	return network
}

// Update implements resource.Resource. Only protect can change in place, and it is Terraform's own.
func (r *appResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	}
}

// Delete implements resource.Resource.
func (r *appResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := state.Name.ValueString()
	if !r.account.Claims.Take(claims.App(name).String()) {
		resp.Diagnostics.AddWarning("App kept", fmt.Sprintf("App %s was taken over by its successor (create_before_destroy) in this very apply. It was not deleted.", name))
		return
	}
	if state.Protect.ValueBool() {
		left, err := r.contents(ctx, name)
		if err != nil && !flyapi.IsNotFound(err) {
			resp.Diagnostics.AddError("App not deleted", err.Error()+".")
			return
		}
		if !left.empty() {
			resp.Diagnostics.AddError("App is protected", fmt.Sprintf("App %s still holds %s, which Fly would delete with it. Nothing was deleted. "+
				"Remove them first, or apply `protect = false` and then destroy the app.", name, left))
			return
		}
	}
	if err := r.account.Fly.DeleteApp(ctx, name); err != nil {
		resp.Diagnostics.AddError("App not deleted", err.Error()+".")
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *appResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	resp.Diagnostics.Append(r.account.Ready()...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := naming.App(req.ID); err != nil {
		resp.Diagnostics.AddError("Not the name of an app", fmt.Sprintf("An app is imported by its name: %s.", err))
		return
	}
	got, err := r.account.Fly.GetApp(ctx, req.ID)
	if err != nil {
		resp.Diagnostics.AddError("App not imported", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, seen(model{Name: types.StringValue(req.ID)}, got))...)
}
