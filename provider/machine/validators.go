package machine

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/guest"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

type described string

// Description implements the Describer interfaces.
func (d described) Description(context.Context) string { return string(d) }

// MarkdownDescription implements the Describer interfaces.
func (d described) MarkdownDescription(context.Context) string { return string(d) }

// imageValidator refuses what is no image reference and warns of one that is not pinned by a digest.
type imageValidator struct{ described }

// ValidateString implements validator.String.
func (imageValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	ref := req.ConfigValue.ValueString()
	if err := imageref.Valid(ref); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid image",
			fmt.Sprintf("%s: %v. Write registry/repository@sha256:…, for instance the `ref` of a flyfleet_image.", req.Path, err))
		return
	}
	if imageref.Digest(ref) == "" {
		resp.Diagnostics.AddAttributeWarning(req.Path, "Image is not pinned by a digest",
			fmt.Sprintf("%s: %q can mean other content tomorrow: a push under the same tag is no change for Terraform, and machines created at different times may run different code. "+
				"Write %s@sha256:…, for instance the `ref` of a flyfleet_image.", req.Path, ref, ref))
	}
}

// durationValidator takes what Fly and Go write as a duration.
type durationValidator struct{ described }

// ValidateString implements validator.String.
func (durationValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if d, err := time.ParseDuration(req.ConfigValue.ValueString()); err != nil || d < 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid duration",
			fmt.Sprintf("%s: %q is no duration; write a number with a unit, such as 15s, 5m or 1h30m.", req.Path, req.ConfigValue.ValueString()))
	}
}

// pathValidator takes absolute, clean paths.
type pathValidator struct{ described }

// ValidateString implements validator.String.
func (pathValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	p := req.ConfigValue.ValueString()
	if len(p) == 0 || p[0] != '/' {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid path", fmt.Sprintf("%s: a path begins with a slash, such as %q; got %q.", req.Path, path.Clean("/"+p), p))
	}
}

// ownerValidator checks the one metadata value whose words this provider gives a meaning.
type ownerValidator struct{ described }

// ValidateMap implements validator.Map.
func (ownerValidator) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	if _, declared := req.ConfigValue.Elements()[mark.CreateKey]; declared {
		at := req.Path.AtMapKey(mark.CreateKey)
		resp.Diagnostics.AddAttributeError(at, "Reserved metadata", fmt.Sprintf("%s: the provider keeps this key itself; leave it out.", at))
	}
	owner, ok := req.ConfigValue.Elements()[mark.OwnerKey].(types.String)
	if !ok || owner.IsNull() || owner.IsUnknown() {
		return
	}
	switch owner.ValueString() {
	case mark.Terraform, mark.Rollout:
	default:
		at := req.Path.AtMapKey(mark.OwnerKey)
		resp.Diagnostics.AddAttributeError(at, "Invalid image owner", fmt.Sprintf("%s: the image of a machine belongs to %q or %q; got %q.", at, mark.Terraform, mark.Rollout, owner.ValueString()))
	}
}

// guestValidator holds a size against Fly's table.
type guestValidator struct{ described }

// ValidateObject implements validator.Object.
func (guestValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	attrs := req.ConfigValue.Attributes()
	kind, ok1 := attrs["cpu_kind"].(types.String)
	cpus, ok2 := attrs["cpus"].(types.Int64)
	memory, ok3 := attrs["memory_mb"].(types.Int64)
	if !ok1 || !ok2 || !ok3 || !known(kind) || !known(cpus) || !known(memory) {
		return
	}
	for _, p := range guest.Check(guest.Size{CPUKind: kind.ValueString(), CPUs: cpus.ValueInt64(), MemoryMB: memory.ValueInt64()}) {
		at := req.Path.AtName(p.Field)
		resp.Diagnostics.AddAttributeError(at, "Size that Fly does not offer", fmt.Sprintf("%s: %s.", at, p.Text))
	}
}

// serviceValidator checks a service and its ports.
type serviceValidator struct{ described }

// ValidateObject implements validator.Object.
func (serviceValidator) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	ports, ok := req.ConfigValue.Attributes()["ports"].(types.List)
	if !ok || ports.IsUnknown() {
		return
	}
	at := req.Path.AtName("ports")
	if len(ports.Elements()) == 0 {
		inner := "8080"
		if p, ok := req.ConfigValue.Attributes()["internal_port"].(types.Int64); ok && known(p) {
			inner = fmt.Sprint(p.ValueInt64())
		}
		resp.Diagnostics.AddAttributeError(at, "Service without ports",
			fmt.Sprintf("%s: Fly forwards to a service only what arrives on its ports, so it needs at least one, such as ports = [{ port = %s }].", at, inner))
		return
	}
	for i, element := range ports.Elements() {
		if p, ok := element.(types.Object); ok && !p.IsUnknown() {
			resp.Diagnostics.Append(checkPort(at.AtListIndex(i), p)...)
		}
	}
}

func checkPort(at tfpath.Path, p types.Object) diag.Diagnostics {
	var diags diag.Diagnostics
	one, _ := p.Attributes()["port"].(types.Int64)
	start, _ := p.Attributes()["start_port"].(types.Int64)
	end, _ := p.Attributes()["end_port"].(types.Int64)
	if one.IsUnknown() || start.IsUnknown() || end.IsUnknown() {
		return diags
	}
	single, ranged := !one.IsNull(), !start.IsNull() && !end.IsNull()
	switch {
	case single && (!start.IsNull() || !end.IsNull()), !single && !ranged:
		diags.AddAttributeError(at, "Port or range", fmt.Sprintf("%s: write either port, or start_port and end_port.", at))
	case ranged && start.ValueInt64() > end.ValueInt64():
		diags.AddAttributeError(at.AtName("end_port"), "Empty range", fmt.Sprintf("%s: end_port %d is below start_port %d.", at, end.ValueInt64(), start.ValueInt64()))
	}
	return diags
}

func known(v interface {
	IsNull() bool
	IsUnknown() bool
},
) bool {
	return !v.IsNull() && !v.IsUnknown()
}
