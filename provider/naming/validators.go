package naming

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// Valid is a validator from one of the checks of this package.
func Valid(what string, check func(string) error) validator.String {
	return nameValidator{what: what, check: check}
}

type nameValidator struct {
	what  string
	check func(string) error
}

// Description implements validator.String.
func (v nameValidator) Description(context.Context) string { return "must be a valid " + v.what }

// MarkdownDescription implements validator.String.
func (v nameValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (v nameValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := v.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+v.what, fmt.Sprintf("%s: %s.", req.Path, err))
	}
}

// ValidRegion refuses what is no region code and warns of a code that is not in Regions.
func ValidRegion() validator.String { return regionValidator{} }

type regionValidator struct{}

// Description implements validator.String.
func (regionValidator) Description(context.Context) string { return "must be a region of Fly" }

// MarkdownDescription implements validator.String.
func (v regionValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (regionValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	code := req.ConfigValue.ValueString()
	known, err := Region(code)
	switch {
	case err != nil:
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid region", fmt.Sprintf("%s: %s.", req.Path, err))
	case !known:
		resp.Diagnostics.AddAttributeWarning(req.Path, "Unknown region",
			fmt.Sprintf("%s: %q is not among the regions that this provider knows (%s). It is sent as it is; Fly refuses it when it does not exist.",
				req.Path, code, strings.Join(Regions, ", ")))
	}
}
