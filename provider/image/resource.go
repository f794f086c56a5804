// Package image is the resource flyfleet_image: a deterministic container image whose digest is known in the plan.
package image

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
)

// NewResource makes the resource.
func NewResource() resource.Resource { return &imageResource{} }

type imageResource struct {
	account *account.Account
}

// built is what private state remembers of the last build: while the inputs' hash is equal, the digest is, and the base's
// registry need not be asked.
type built struct {
	Inputs string `json:"inputs"`
	Digest string `json:"digest"`
}

const builtKey = "built"

// Metadata implements resource.Resource.
func (r *imageResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_image"
}

// Schema implements resource.Resource.
func (r *imageResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = resourceSchema()
}

// Configure implements resource.ResourceWithConfigure.
func (r *imageResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		r.account = a
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan. It builds the image in memory and puts its digest into the plan.
func (r *imageResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || r.account == nil {
		return
	}
	digestAt, refAt := path.Root("digest"), path.Root("ref")
	unknown, diags := unknownInputs(req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	if len(unknown) > 0 {
		resp.Diagnostics.AddWarning("The image's digest is not known yet", fmt.Sprintf("%s: known only after the apply, so the digest is too, and each machine that uses this image shows an unknown image in the plan. "+
			"Make it known in the plan (a file on disk, a variable) to see the final digest.", strings.Join(unknown, ", ")))
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, digestAt, types.StringUnknown())...)
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, refAt, types.StringUnknown())...)
		return
	}
	var repository types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("repository"), &repository)...)
	plan, diags := planModel(ctx, req.Plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	registry, token := r.registry()
	spec, err := specOf(plan, registry, token)
	if err != nil {
		resp.Diagnostics.AddError("The image cannot be built", err.Error()+".")
		return
	}
	b, err := digest(ctx, spec, lastBuilt(ctx, req.Private))
	if err != nil {
		resp.Diagnostics.AddError("The image cannot be built", err.Error()+".")
		return
	}
	if why := r.changedSince(ctx, plan, req.Private); why != "" {
		resp.Diagnostics.AddWarning("A file of the image changed after the refresh", fmt.Sprintf("%s. The image is now %s. Where this is an apply, the file changed after the plan, and Terraform reports an inconsistent final plan: nothing was pushed, plan again.", why, b.Digest))
	}
	ref := types.StringUnknown()
	if registry != "" && !repository.IsUnknown() {
		ref = types.StringValue(refOf(registry, repository.ValueString(), b.Digest))
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, digestAt, b.Digest)...)
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, refAt, ref)...)
}

// registry is the account's, empty while the provider's configuration is not known.
func (r *imageResource) registry() (host, token string) {
	if r.account.Fly == nil {
		return "", ""
	}
	return r.account.Fly.RegistryHost(), r.account.Fly.Token()
}

func refOf(registry, repository, digest string) string {
	return ociimage.Destination{Registry: registry, Repository: repository}.Ref() + "@" + digest
}

// digest is the image's digest: the last one while the inputs are the same.
func digest(ctx context.Context, spec ociimage.Spec, last built) (built, error) {
	hash, err := ociimage.InputsHash(ctx, spec)
	if err != nil {
		return built{}, err
	}
	if hash == last.Inputs && last.Digest != "" {
		return last, nil
	}
	img, err := ociimage.Build(ctx, spec)
	if err != nil {
		return built{}, err
	}
	return built{Inputs: img.InputsHash(), Digest: img.Digest()}, nil
}

func lastBuilt(ctx context.Context, private interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
},
) built {
	var b built
	raw, diags := private.GetKey(ctx, builtKey)
	if diags.HasError() || json.Unmarshal(raw, &b) != nil {
		return built{}
	}
	return b
}

// unknownInputs names the inputs that are not known in the plan.
func unknownInputs(plan tfsdk.Plan) ([]string, diag.Diagnostics) {
	var attributes map[string]tftypes.Value
	if err := plan.Raw.As(&attributes); err != nil {
		return nil, diag.Diagnostics{diag.NewErrorDiagnostic("Plan not read", err.Error())}
	}
	var out []string
	for _, name := range inputs {
		v := attributes[name]
		if v.IsFullyKnown() {
			continue
		}
		out = append(out, innermost(name, v)...)
	}
	slices.Sort(out)
	return out, nil
}

// innermost names the unknown parts of a value.
func innermost(name string, v tftypes.Value) []string {
	if v.IsFullyKnown() {
		return nil
	}
	if !v.IsKnown() {
		return []string{name}
	}
	var out []string
	var object map[string]tftypes.Value
	if v.As(&object) == nil {
		for k, child := range object {
			if v.Type().Is(tftypes.Object{}) {
				out = append(out, innermost(name+"."+k, child)...)
			} else {
				out = append(out, innermost(fmt.Sprintf("%s[%q]", name, k), child)...)
			}
		}
		return out
	}
	return []string{name}
}

// planModel reads the plan. A repository that is not known yet reads as empty.
func planModel(ctx context.Context, plan tfsdk.Plan) (model, diag.Diagnostics) {
	known := tfsdk.Plan{Schema: plan.Schema, Raw: plan.Raw}
	diags := known.SetAttribute(ctx, path.Root("repository"), "")
	diags.Append(known.SetAttribute(ctx, path.Root("tag"), types.StringNull())...)
	var m model
	if !diags.HasError() {
		diags.Append(known.Get(ctx, &m)...)
	}
	return m, diags
}

// Create implements resource.Resource.
func (r *imageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	b, err := r.push(ctx, &plan)
	if err != nil {
		resp.Diagnostics.AddError("Image not pushed", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(remember(ctx, resp.Private, b)...)
}

// Update implements resource.Resource.
func (r *imageResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	b, err := r.push(ctx, &plan)
	if err != nil {
		resp.Diagnostics.AddError("Image not pushed", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
	resp.Diagnostics.Append(remember(ctx, resp.Private, b)...)
}

func remember(ctx context.Context, private interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}, b built,
) diag.Diagnostics {
	raw, err := json.Marshal(b)
	if err != nil {
		return diag.Diagnostics{diag.NewErrorDiagnostic("Private state not written", err.Error())}
	}
	return private.SetKey(ctx, builtKey, raw)
}

// push builds the image again, holds it against the plan, and uploads it.
func (r *imageResource) push(ctx context.Context, plan *model) (built, error) {
	registry, token := r.registry()
	spec, err := specOf(*plan, registry, token)
	if err != nil {
		return built{}, err
	}
	img, err := ociimage.Build(ctx, spec)
	if err != nil {
		return built{}, err
	}
	if !plan.Digest.IsUnknown() && plan.Digest.ValueString() != img.Digest() {
		return built{}, fmt.Errorf("a file of the image changed after the plan: the plan was for %s, the files now make %s. Nothing was pushed. Plan again (inputs: %s)",
			plan.Digest.ValueString(), img.Digest(), strings.Join(sources(*plan), ", "))
	}
	d := ociimage.Destination{Registry: registry, Repository: plan.Repository, Token: token}
	if plan.Tag != nil {
		d.Tag = *plan.Tag
	}
	if err := ociimage.Push(ctx, img, d); err != nil {
		return built{}, err
	}
	plan.Digest, plan.Ref = types.StringValue(img.Digest()), types.StringValue(img.Ref(d.Ref()))
	return built{Inputs: img.InputsHash(), Digest: img.Digest()}, nil
}

// sources are the files on this computer that the image is made of.
func sources(m model) []string {
	var out []string
	if m.ControlServer != nil {
		out = append(out, *m.ControlServer)
	}
	for _, f := range m.Files {
		if f.Source != nil {
			out = append(out, *f.Source)
		}
	}
	slices.Sort(out)
	return out
}

// Read implements resource.Resource. An image that the registry no longer holds is shown without a digest, so that the next
// plan pushes it again.
func (r *imageResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	registry, token := r.registry()
	has, err := ociimage.Has(ctx, ociimage.Destination{Registry: registry, Repository: state.Repository, Token: token}, state.Digest.ValueString())
	if err != nil {
		resp.Diagnostics.AddError("Image not read", err.Error()+".")
		return
	}
	if !has {
		state.Digest, state.Ref = types.StringNull(), types.StringNull()
		resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
	}
	resp.Diagnostics.Append(r.noteRefresh(ctx, resp.Private)...)
}

// Delete implements resource.Resource. The image stays in the registry: machines may run it, and pull it when they start.
func (r *imageResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}
