package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// ImportState implements resource.ResourceWithImportState. It fills every typed attribute, so that a configuration written
// from the state plans empty, and notes that nobody has declared any of it yet.
func (r *machineResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	app, id, ok := strings.Cut(req.ID, "/")
	if !ok || app == "" || id == "" || strings.Contains(id, "/") {
		resp.Diagnostics.AddError("Not the id of a machine", fmt.Sprintf("A machine is imported as app/id, such as tenant-a/3d8d7949b94089; got %q. `fly machine list -a APP` shows the ids.", req.ID))
		return
	}
	resp.Diagnostics.Append(r.account.Ready()...)
	if resp.Diagnostics.HasError() {
		return
	}
	m, err := r.account.Fly.GetMachine(ctx, app, id)
	if err != nil {
		resp.Diagnostics.AddError("Machine not imported", err.Error()+".")
		return
	}
	if m.Gone() || m.IncompleteConfig {
		resp.Diagnostics.AddError("Machine not imported", fmt.Sprintf("Machine %s of app %s is %s on a host that is %s: its configuration cannot be read.", id, app, m.State, orUnknown(m.HostStatus)))
		return
	}
	remote, err := readRemote(m.Config())
	if err != nil {
		resp.Diagnostics.AddError("Machine not imported", fmt.Sprintf("Machine %s of app %s: %s.", id, app, err))
		return
	}
	state := full(remote)
	state.ID, state.App, state.Name, state.Region = types.StringValue(m.ID), app, m.Name, m.Region
	state.Timeouts = noTimeouts()
	delete(state.Metadata, mark.CreateKey) // the provider's own, and nobody's to declare
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	rec := record{InstanceID: m.InstanceID, State: m.State, Owner: m.Metadata()[mark.OwnerKey], Seen: present(resp.State.Raw)}
	resp.Diagnostics.Append(writeRecord(ctx, resp.Private, rec)...)
}

func noTimeouts() timeouts.Value {
	return timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{"create": types.StringType, "update": types.StringType, "delete": types.StringType})}
}

// present lists the paths of an object's values that are not null, as path.Path.String writes them.
func present(object tftypes.Value) []string {
	var out []string
	// The callback never fails.
	_ = tftypes.Walk(object, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if v.IsNull() {
			return false, nil
		}
		if p := pathText(at); p != "" {
			out = append(out, p)
		}
		return true, nil
	})
	slices.Sort(out)
	return out
}

func pathText(at *tftypes.AttributePath) string {
	var b strings.Builder
	for _, step := range at.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(string(step))
		case tftypes.ElementKeyString:
			fmt.Fprintf(&b, "[%q]", string(step))
		case tftypes.ElementKeyInt:
			fmt.Fprintf(&b, "[%d]", int64(step))
		}
	}
	return b.String()
}

// undeclared is what is left of the paths that came by import once a configuration has spoken of some of them.
func undeclared(seen []string, config tftypes.Value) []string {
	declared := present(config)
	return slices.DeleteFunc(slices.Clone(seen), func(p string) bool {
		_, found := slices.BinarySearch(declared, p)
		return found
	})
}
