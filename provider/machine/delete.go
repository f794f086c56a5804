package machine

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// Delete implements resource.Resource. It waits until the machine is gone, so that its name and its volume are free.
func (r *machineResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	budget, diags := state.Timeouts.Delete(ctx, defaultDelete)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	app, id := state.App, state.ID.ValueString()
	if err := r.account.Fly.DestroyMachine(ctx, app, id, true, flyapi.Lease{}); err != nil {
		resp.Diagnostics.AddError("Machine not destroyed", err.Error()+".")
		return
	}
	if err := r.account.Fly.WaitMachine(ctx, app, id, flyapi.WaitRequest{States: []string{flyapi.StateDestroyed}, Budget: budget}); err != nil {
		resp.Diagnostics.AddError("Machine not gone yet", fmt.Sprintf("Fly took the destroy of machine %s (app %s), but it is not gone: %s. Run the command again.", id, app, err))
	}
}
