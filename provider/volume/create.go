package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/claims"
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
	note := claims.Recall(ctx, resp.Private)
	v, err := r.find(ctx, plan, note)
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
func (r *volumeResource) find(ctx context.Context, plan model, note claims.Note) (flyapi.Volume, error) {
	app := plan.App.ValueString()
	if r.account.Claims.Made(claims.App(app).String()) && !r.account.Claims.Adopted(claims.App(app)) {
		return flyapi.Volume{}, nil // this very apply made the app: nothing can have been left in it
	}
	all, err := r.account.Fly.ListVolumes(ctx, app)
	if err != nil {
		return flyapi.Volume{}, err
	}
	match := candidates(all, plan, note.Held)
	if len(match) == 0 {
		return flyapi.Volume{}, nil
	}
	holder := map[string]*flyapi.Machine{}
	for _, v := range match {
		if v.AttachedMachine == "" {
			continue
		}
		m, err := r.account.Fly.GetMachine(ctx, app, v.AttachedMachine)
		if err != nil && !flyapi.IsNotFound(err) {
			return flyapi.Volume{}, err
		}
		if err == nil {
			holder[m.ID] = m
		}
	}
	v, err := leftBehind(match, holder, time.Now())
	if err != nil {
		return flyapi.Volume{}, fmt.Errorf("app %s has %w%s", app, err, importBlock(app, match[0].ID))
	}
	if !r.account.Claims.Take(v.ID) {
		return flyapi.Volume{}, fmt.Errorf("volume %s of app %s belongs to another resource of this configuration", v.ID, app)
	}
	return v, nil
}

// candidates are the volumes of the planned name, region and size that no other resource stands for.
func candidates(all []flyapi.Volume, plan model, held []string) []flyapi.Volume {
	var out []flyapi.Volume
	for _, v := range all {
		if !v.Gone() && !slices.Contains(held, v.ID) && v.Name == plan.Name.ValueString() && v.Region == plan.Region.ValueString() && int64(v.SizeGB) == plan.SizeGB.ValueInt64() {
			out = append(out, v)
		}
	}
	return out
}

// youth is the greatest age of what an interrupted create left behind.
const youth = 24 * time.Hour

// leftBehind picks the one volume that an interrupted create of ours must have made, or says why there is none to be sure
// of. A volume has no metadata, so its age and its machine speak for it.
func leftBehind(match []flyapi.Volume, holder map[string]*flyapi.Machine, now time.Time) (flyapi.Volume, error) {
	if len(match) > 1 {
		return flyapi.Volume{}, fmt.Errorf("%d volumes of this name, region and size (%s, %s, …), and which one is meant cannot be told. Delete what you do not need, or import one", len(match), match[0].ID, match[1].ID)
	}
	v := match[0]
	says := fmt.Sprintf("volume %s of this name, region and size already, and it was not adopted:", v.ID)
	if now.Sub(v.CreatedAt) > youth {
		return v, fmt.Errorf("%s it was made on %s, before any create that could have been interrupted. It was not touched. Choose another name, or take it as it is", says, v.CreatedAt.UTC().Format(time.DateOnly))
	}
	if v.AttachedMachine == "" {
		return v, nil
	}
	m := holder[v.AttachedMachine]
	if m == nil || m.Metadata()[ownerKey] == "" || now.Sub(m.CreatedAt) > youth {
		return v, fmt.Errorf("%s machine %s, which was not made by the same create, mounts it. It was not touched. Choose another name, or take it as it is", says, v.AttachedMachine)
	}
	return v, nil
}

// ownerKey marks each machine that flyfleet made.
const ownerKey = "flyfleet_image_owner"

func importBlock(app, id string) string {
	return fmt.Sprintf(" with\n\nimport {\n  to = flyfleet_volume.NAME\n  id = \"%s/%s\"\n}\n", app, id)
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
