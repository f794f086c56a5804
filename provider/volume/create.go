package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// settleIn is how long a new volume may take to be ready. Fly makes an empty one in a second or two.
const settleIn = 2 * time.Minute

// Create implements resource.Resource. It finds or creates, and once the volume exists it never fails: a failed create
// would be destroyed by the next apply.
func (r *volumeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(r.account.Ready()...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	v, err := r.find(ctx, plan)
	switch {
	case err != nil:
		resp.Diagnostics.AddError("Volume not created", err.Error()+".")
		return
	case v.ID != "":
		resp.Diagnostics.AddWarning("Volume adopted", fmt.Sprintf("Volume %s (%s of app %s, %s, %d GB) was left by a create that was interrupted. It was adopted.", v.ID, v.Name, plan.App.ValueString(), v.Region, v.SizeGB))
	default:
		v, err = r.account.Fly.CreateVolume(ctx, plan.App.ValueString(), request(plan))
		if err != nil {
			resp.Diagnostics.AddError("Volume not created", err.Error()+".")
			return
		}
		r.account.Claims.Take(v.ID)
	}
	state := created(plan, v)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
	if err := r.ready(ctx, plan.App.ValueString(), v); err != nil {
		resp.Diagnostics.AddWarning("Volume not ready yet", fmt.Sprintf("Volume %s of app %s was created, but %s. It is kept; the next apply goes on with it.", v.ID, plan.App.ValueString(), err))
	}
}

func request(plan model) flyapi.CreateVolumeRequest {
	in := flyapi.CreateVolumeRequest{Name: plan.Name.ValueString(), Region: plan.Region.ValueString(), SizeGB: int(plan.SizeGB.ValueInt64())}
	if !plan.Encrypted.IsUnknown() {
		in.Encrypted = plan.Encrypted.ValueBoolPointer()
	}
	if !plan.SnapshotRetention.IsUnknown() && !plan.SnapshotRetention.IsNull() {
		days := int(plan.SnapshotRetention.ValueInt64())
		in.SnapshotRetention = &days
	}
	if !plan.AutoBackup.IsUnknown() {
		in.AutoBackup = plan.AutoBackup.ValueBoolPointer()
	}
	return in
}

// created is the plan with what Fly chose. What was planned stays as planned, as Terraform demands; a difference shows
// in the next plan.
func created(plan model, v flyapi.Volume) model {
	plan.ID = types.StringValue(v.ID)
	if plan.Encrypted.IsUnknown() {
		plan.Encrypted = types.BoolValue(v.Encrypted)
	}
	if plan.SnapshotRetention.IsUnknown() {
		plan.SnapshotRetention = types.Int64Value(int64(v.SnapshotRetention))
	}
	if plan.AutoBackup.IsUnknown() {
		plan.AutoBackup = types.BoolValue(v.AutoBackup)
	}
	return plan
}

// find looks for what an interrupted create left behind. No id means that there is nothing.
func (r *volumeResource) find(ctx context.Context, plan model) (flyapi.Volume, error) {
	app := plan.App.ValueString()
	if r.account.Claims.Fresh(claims.App(app)) {
		return flyapi.Volume{}, nil // this very apply made the app: nothing can have been left in it
	}
	all, err := r.account.Fly.ListVolumes(ctx, app)
	if err != nil {
		return flyapi.Volume{}, err
	}
	match := candidates(all, plan)
	if len(match) == 0 {
		return flyapi.Volume{}, nil
	}
	machines, err := r.account.Fly.ListMachines(ctx, app)
	if err != nil {
		return flyapi.Volume{}, err
	}
	v, err := leftBehind(match, machines, time.Now())
	if err == nil && !r.account.Claims.Take(v.ID) {
		err = fmt.Errorf("volume %s, which another resource of this configuration stands for", v.ID)
	}
	if err != nil {
		return flyapi.Volume{}, fmt.Errorf("app %s has %w", app, err)
	}
	return v, nil
}

// candidates are the volumes of the planned name, region and size that no other resource stands for.
func candidates(all []flyapi.Volume, plan model) []flyapi.Volume {
	var out []flyapi.Volume
	for _, v := range all {
		if !v.Gone() && v.Name == plan.Name.ValueString() && v.Region == plan.Region.ValueString() && int64(v.SizeGB) == plan.SizeGB.ValueInt64() {
			out = append(out, v)
		}
	}
	return out
}

// youth is the greatest age of what an interrupted create left behind.
const youth = 24 * time.Hour

// leftBehind picks the one volume that an interrupted create of ours must have made, or says why there is none to be sure
// of. A volume has no metadata, so its age, its machine and the app's other machines speak for it.
func leftBehind(match []flyapi.Volume, machines []*flyapi.Machine, now time.Time) (flyapi.Volume, error) {
	v := match[0]
	if len(match) > 1 {
		return v, fmt.Errorf("%d volumes of this name, region and size (%s, %s, …), and which one is meant cannot be told. Delete what is not needed, or import one", len(match), match[0].ID, match[1].ID)
	}
	var why string
	var holder *flyapi.Machine
	for _, m := range machines {
		switch {
		case m.Gone():
		case !mark.Ours(m):
			why = fmt.Sprintf("machine %s (%s), which flyfleet did not make, is in the same app", m.ID, m.Name)
		case m.ID == v.AttachedMachine && mark.Interrupted(m):
			holder = m
		}
	}
	switch {
	case now.Sub(v.CreatedAt) > youth:
		why = fmt.Sprintf("it was made on %s, before any create that could have been interrupted", v.CreatedAt.UTC().Format(time.DateOnly))
	case why != "", v.AttachedMachine == "":
	case holder == nil:
		why = fmt.Sprintf("machine %s, which was not made by the same create, mounts it", v.AttachedMachine)
	}
	if why == "" {
		return v, nil
	}
	return v, fmt.Errorf("volume %s of this name, region and size already, and it was not adopted: %s. It was not touched. Choose another name, or take it as it is with an import block (to = flyfleet_volume.NAME, id = APP/%s)", v.ID, why, v.ID)
}

// ready waits until the volume is.
func (r *volumeResource) ready(ctx context.Context, app string, v flyapi.Volume) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleIn, errors.New("it was not ready in time"))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for v.State != "created" && v.State != "" {
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is %s: %w", v.State, context.Cause(ctx))
		case <-tick.C:
		}
		var err error
		if v, err = r.account.Fly.GetVolume(ctx, app, v.ID); err != nil {
			return fmt.Errorf("reading it back failed: %w", err)
		}
	}
	return nil
}

const pollEvery = time.Second
