package machine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
)

// keepSpelling keeps the state's image where the configuration only spells the same digest in another way. Semantic
// equality of a custom type does not act at plan, so this is where it has to stand.
type keepSpelling struct{ described }

// PlanModifyString implements planmodifier.String.
func (keepSpelling) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if !known(req.StateValue) || !known(req.ConfigValue) {
		return
	}
	if imageref.Same(req.StateValue.ValueString(), req.ConfigValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}

// released decides what an attribute means that the configuration leaves out. A value that came by import is kept as it
// is: nobody declared it, so nobody asked for its end. Any other is planned away, which removes what had been
// declared. Either way the plan is known, so that nothing reads "known after apply".
type released struct{ described }

func release(ctx context.Context, config, state attr.Value, at path.Path, private privateReader) (keep, decide bool) {
	if !config.IsNull() {
		return false, false
	}
	if state.IsNull() {
		return false, true
	}
	r, diags := readRecord(ctx, private)
	return !diags.HasError() && r.seen(at.String()), true
}

// PlanModifyString implements planmodifier.String. A duration that is only spelled in another way keeps the state's
// spelling.
func (released) PlanModifyString(ctx context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if known(req.ConfigValue) && known(req.StateValue) && sameAt(nil, req.ConfigValue.ValueString(), req.StateValue.ValueString()) {
		resp.PlanValue = req.StateValue
		return
	}
	if keep, decide := release(ctx, req.ConfigValue, req.StateValue, req.Path, req.Private); keep {
		resp.PlanValue = req.StateValue
	} else if decide {
		resp.PlanValue = req.ConfigValue
	}
}

// PlanModifyInt64 implements planmodifier.Int64.
func (released) PlanModifyInt64(ctx context.Context, req planmodifier.Int64Request, resp *planmodifier.Int64Response) {
	if keep, decide := release(ctx, req.ConfigValue, req.StateValue, req.Path, req.Private); keep {
		resp.PlanValue = req.StateValue
	} else if decide {
		resp.PlanValue = req.ConfigValue
	}
}

// PlanModifyMap implements planmodifier.Map.
func (released) PlanModifyMap(ctx context.Context, req planmodifier.MapRequest, resp *planmodifier.MapResponse) {
	if keep, decide := release(ctx, req.ConfigValue, req.StateValue, req.Path, req.Private); keep {
		resp.PlanValue = req.StateValue
	} else if decide {
		resp.PlanValue = req.ConfigValue
	}
}

// PlanModifyList implements planmodifier.List.
func (released) PlanModifyList(ctx context.Context, req planmodifier.ListRequest, resp *planmodifier.ListResponse) {
	if keep, decide := release(ctx, req.ConfigValue, req.StateValue, req.Path, req.Private); keep {
		resp.PlanValue = req.StateValue
	} else if decide {
		resp.PlanValue = req.ConfigValue
	}
}

// PlanModifyObject implements planmodifier.Object.
func (released) PlanModifyObject(ctx context.Context, req planmodifier.ObjectRequest, resp *planmodifier.ObjectResponse) {
	if keep, decide := release(ctx, req.ConfigValue, req.StateValue, req.Path, req.Private); keep {
		resp.PlanValue = req.StateValue
	} else if decide {
		resp.PlanValue = req.ConfigValue
	}
}

// kept keeps the state's value of what the configuration leaves out: a machine always has a size, so leaving it out can
// only mean that nobody manages it here.
type kept struct{ described }

// PlanModifyObject implements planmodifier.Object.
func (kept) PlanModifyObject(_ context.Context, req planmodifier.ObjectRequest, resp *planmodifier.ObjectResponse) {
	if req.ConfigValue.IsNull() {
		resp.PlanValue = req.StateValue
	}
}

// additive is released for maps whose foreign keys are nobody's business. Keys that came by import and were never declared
// are no reason for a plan: as long as the declared ones are as they should be, the state stays as it is.
type additive struct{ released }

// PlanModifyMap implements planmodifier.Map.
func (m additive) PlanModifyMap(ctx context.Context, req planmodifier.MapRequest, resp *planmodifier.MapResponse) {
	if !known(req.ConfigValue) || req.StateValue.IsNull() {
		m.released.PlanModifyMap(ctx, req, resp)
		return
	}
	r, diags := readRecord(ctx, req.Private)
	if diags.HasError() {
		return
	}
	declared, state := req.ConfigValue.Elements(), req.StateValue.Elements()
	for k, v := range declared {
		if now, ok := state[k]; !ok || !now.Equal(v) {
			return
		}
	}
	for k := range state {
		if _, ok := declared[k]; !ok && !r.seen(req.Path.AtMapKey(k).String()) {
			return
		}
	}
	resp.PlanValue = req.StateValue
}
