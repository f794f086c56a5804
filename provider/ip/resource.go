// Package ip is the resource flyfleet_ip: an address of an app.
package ip

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
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
func NewResource() resource.Resource { return &ipResource{} }

type ipResource struct {
	account *account.Account
}

type model struct {
	App     types.String `tfsdk:"app"`
	Type    types.String `tfsdk:"type"`
	Network types.String `tfsdk:"network"`
	Region  types.String `tfsdk:"region"`
	Address types.String `tfsdk:"address"`
}

// Metadata implements resource.Resource.
func (r *ipResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_ip"
}

// Schema implements resource.Resource.
func (r *ipResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{
		MarkdownDescription: "An address of an app. A tenant's app has one `private_v6` address (flycast) on the runtime's network, so that the runtime reaches the tenant and no tenant reaches another; it has no public one.",
		Attributes: map[string]schema.Attribute{
			"app": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name of the app.", PlanModifiers: replace,
				Validators: []validator.String{naming.Valid("app name", naming.App)},
			},
			"type": schema.StringAttribute{
				Required: true, MarkdownDescription: "`private_v6` (flycast), `v6`, `shared_v4` or `v4`.", PlanModifiers: replace,
				Validators: []validator.String{stringvalidator.OneOf(flyapi.AddressPrivateV6, flyapi.AddressV6, flyapi.AddressSharedV4, flyapi.AddressV4)},
			},
			"network": schema.StringAttribute{
				Optional: true, MarkdownDescription: "With `private_v6`: the private network from which the address is reached. Default: the app's own. An address on another network is not reachable from the app's own one.",
				PlanModifiers: replace, Validators: []validator.String{naming.Valid("network name", naming.Network), networkValidator{}},
			},
			"region": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Region of a public address. Default: global.", PlanModifiers: replace,
				Validators: []validator.String{naming.ValidRegion()},
			},
			"address": schema.StringAttribute{
				Computed: true, MarkdownDescription: "The address.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

// networkValidator refuses a network where it means nothing.
type networkValidator struct{}

// Description implements validator.String.
func (networkValidator) Description(context.Context) string { return "only with type private_v6" }

// MarkdownDescription implements validator.String.
func (v networkValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (networkValidator) ValidateString(ctx context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	var kind types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("type"), &kind)...)
	if req.ConfigValue.IsNull() || kind.IsNull() || kind.IsUnknown() || kind.ValueString() == flyapi.AddressPrivateV6 {
		return
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Network of a public address", fmt.Sprintf("network: a %s address is public and belongs to no private network; leave it out, or use type = %q.", kind.ValueString(), flyapi.AddressPrivateV6))
}

// Configure implements resource.ResourceWithConfigure.
func (r *ipResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		r.account = a
	}
}

// key names the one kind of address that can be found again. Others are many, and each its own.
func key(m model) (claims.Key, bool) {
	if m.Type.ValueString() != flyapi.AddressPrivateV6 || m.App.IsUnknown() || m.Network.IsUnknown() {
		return claims.Key{}, false
	}
	return claims.Key{Kind: "address", Name: fmt.Sprintf("private_v6 of app %s on network %q", m.App.ValueString(), m.Network.ValueString())}, true
}

// ModifyPlan implements resource.ResourceWithModifyPlan.
func (r *ipResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if r.account == nil || req.Plan.Raw.IsNull() {
		return // of one that goes, the successor may be planned already: that is no second resource
	}
	var m model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
		if k, ok := key(m); ok && !resp.Diagnostics.HasError() {
			if err := r.account.Claims.Exists(k); err != nil {
				resp.Diagnostics.AddError("Two resources, one address", err.Error()+".")
			}
		}
		return
	}
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	k, ok := key(m)
	if !ok || resp.Diagnostics.HasError() {
		return
	}
	if err := r.account.Claims.Creates(k); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("network"), "Two resources, one address", err.Error()+".")
	}
}

// Create implements resource.Resource. The address is the one in Fly's answer: two creates at once get two addresses.
func (r *ipResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	app := plan.App.ValueString()
	if plan.Type.ValueString() == flyapi.AddressPrivateV6 {
		found, err := r.find(ctx, plan)
		if err != nil {
			resp.Diagnostics.AddError("Address not assigned", err.Error())
			return
		}
		if found != "" {
			resp.Diagnostics.AddWarning("Address adopted", fmt.Sprintf("App %s had the private_v6 address %s already, assigned within a day: left by a create that was interrupted. It was adopted.", app, found))
			plan.Address = types.StringValue(found)
			resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
			return
		}
	}
	got, err := r.account.Fly.AssignAddress(ctx, app, flyapi.AssignRequest{Type: plan.Type.ValueString(), Network: plan.Network.ValueString(), Region: plan.Region.ValueString()})
	if err != nil {
		resp.Diagnostics.AddError("Address not assigned", err.Error()+".")
		return
	}
	r.account.Claims.Take(app + " " + got.IP)
	plan.Address = types.StringValue(got.IP)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// find looks for the address that an interrupted create left behind: an app has at most one flycast address per network,
// so it can be told from others, which no other type can.
func (r *ipResource) find(ctx context.Context, plan model) (string, error) {
	app := plan.App.ValueString()
	if r.account.Claims.Fresh(claims.App(app)) {
		return "", nil // this very apply made the app
	}
	all, err := r.account.Fly.ListAddresses(ctx, app)
	if err != nil {
		return "", err
	}
	network := plan.Network.ValueString()
	if network == "" || slices.ContainsFunc(all, func(a flyapi.Address) bool { return a.Type == flyapi.AddressPrivateV6 && a.Network == "" }) {
		own, err := r.account.Fly.GetApp(ctx, app)
		if err != nil {
			return "", err
		}
		if network == "" {
			network = own.Network
		}
		for i := range all {
			if all[i].Network == "" {
				all[i].Network = own.Network
			}
		}
	}
	a, err := leftBehind(all, network, time.Now())
	if err != nil || a.IP == "" {
		return "", err
	}
	if !r.account.Claims.Take(app + " " + a.IP) {
		return "", fmt.Errorf("address %s of app %s belongs to another resource of this configuration", a.IP, app)
	}
	return a.IP, nil
}

// youth is the greatest age of what an interrupted create left behind.
const youth = 24 * time.Hour

// leftBehind picks the flycast address on a network, or says why the one that is there is not to be taken. No address and
// no error means that there is none.
func leftBehind(all []flyapi.Address, network string, now time.Time) (flyapi.Address, error) {
	for _, a := range all {
		if a.Type != flyapi.AddressPrivateV6 || !flyapi.SameNetwork(a.Network, network) {
			continue
		}
		if a.CreatedAt.IsZero() || now.Sub(a.CreatedAt) > youth {
			block := fmt.Sprintf("import {\n  to = flyfleet_ip.NAME\n  id = \"%s/%s\"\n}", a.App, a.IP)
			return a, fmt.Errorf("app %s has the private_v6 address %s on network %q already, older than any create that could have been interrupted, and can have no second one. It was not touched. Take it as it is with\n\n%s",
				a.App, a.IP, network, block)
		}
		return a, nil
	}
	return flyapi.Address{}, nil
}

// Read implements resource.Resource.
func (r *ipResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, address := state.App.ValueString(), state.Address.ValueString()
	list, listed, err := r.account.Inventory.Addresses(ctx, app)
	if err == nil && (!listed || !has(list, address)) {
		// Nothing is removed on the word of a list that may be late.
		list, err = r.account.Fly.ListAddresses(ctx, app)
	}
	if err != nil && !flyapi.IsNotFound(err) {
		resp.Diagnostics.AddError("Address not read", fmt.Sprintf("Address %s of app %s: %s.", address, app, err))
		return
	}
	if err != nil || !has(list, address) {
		resp.State.RemoveResource(ctx)
	}
}

func has(list []flyapi.Address, address string) bool {
	return slices.ContainsFunc(list, func(a flyapi.Address) bool { return a.IP == address })
}

// Update implements resource.Resource. Nothing of an address changes in place.
func (r *ipResource) Update(_ context.Context, _ resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.Diagnostics.AddError("An address cannot be changed", errors.ErrUnsupported.Error())
}

// Delete implements resource.Resource.
func (r *ipResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, address := state.App.ValueString(), state.Address.ValueString()
	if !r.account.Claims.Take(app + " " + address) {
		resp.Diagnostics.AddWarning("Address kept", fmt.Sprintf("App %s can have one private_v6 address on a network, so its successor (create_before_destroy) is the same address, %s. It was not released.", app, address))
		return
	}
	if err := r.account.Fly.ReleaseAddress(ctx, app, address); err != nil {
		resp.Diagnostics.AddError("Address not released", err.Error()+".")
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *ipResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	app, address, ok := strings.Cut(req.ID, "/")
	if !ok || app == "" || address == "" {
		resp.Diagnostics.AddError("Not the id of an address", fmt.Sprintf("An address is imported as app/address, such as tenant-a/fdaa:0:1::3; got %q. `fly ips list -a APP` shows them.", req.ID))
		return
	}
	resp.Diagnostics.Append(r.account.Ready()...)
	if resp.Diagnostics.HasError() {
		return
	}
	list, err := r.account.Fly.ListAddresses(ctx, app)
	if err != nil {
		resp.Diagnostics.AddError("Address not imported", err.Error()+".")
		return
	}
	at := slices.IndexFunc(list, func(a flyapi.Address) bool { return a.IP == address })
	if at < 0 {
		resp.Diagnostics.AddError("Address not imported", fmt.Sprintf("App %s has no address %s.", app, address))
		return
	}
	own, err := r.account.Fly.GetApp(ctx, app)
	if err != nil {
		resp.Diagnostics.AddError("Address not imported", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, imported(app, list[at], own.Network))...)
}

// imported is the state of an address as its configuration would read: what is left out by default stays out.
func imported(app string, a flyapi.Address, own string) model {
	m := model{App: types.StringValue(app), Type: types.StringValue(a.Type), Address: types.StringValue(a.IP), Network: types.StringNull(), Region: types.StringNull()}
	if a.Type == flyapi.AddressPrivateV6 && a.Network != "" && !flyapi.SameNetwork(a.Network, own) {
		m.Network = types.StringValue(a.Network)
	}
	if a.Region != "" && a.Region != "global" && a.Type != flyapi.AddressPrivateV6 {
		m.Region = types.StringValue(a.Region)
	}
	return m
}
