package flyapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	fly "github.com/superfly/fly-go"
)

// Volume is one volume.
type Volume struct {
	ID, Name, State, Region, Zone string
	SizeGB                        int
	Encrypted                     bool
	// AttachedMachine is the machine that claims it, "" when none does.
	AttachedMachine   string
	CreatedAt         time.Time
	SnapshotRetention int // days
	AutoBackup        bool
	HostStatus        string
}

// Gone reports that a volume is on its way out; Fly keeps such ones for a day and lists them on.
func (v Volume) Gone() bool {
	switch v.State {
	case "scheduling_destroy", "fork_cleanup", "waiting_for_detach", "pending_destroy", "destroying", "destroyed":
		return true
	}
	return false
}

func volumeOf(v *fly.Volume) Volume {
	out := Volume{
		ID: v.ID, Name: v.Name, State: v.State, Region: v.Region, Zone: v.Zone, SizeGB: v.SizeGb, Encrypted: v.Encrypted,
		CreatedAt: v.CreatedAt, SnapshotRetention: v.SnapshotRetention, AutoBackup: v.AutoBackupEnabled, HostStatus: v.HostStatus,
	}
	if v.AttachedMachine != nil {
		out.AttachedMachine = *v.AttachedMachine
	}
	return out
}

// CreateVolumeRequest is a new volume. Nil pointers leave the choice to Fly.
type CreateVolumeRequest struct {
	Name              string  `json:"name"`
	Region            string  `json:"region"`
	SizeGB            int     `json:"size_gb"`
	Encrypted         *bool   `json:"encrypted,omitempty"`
	SnapshotRetention *int    `json:"snapshot_retention,omitempty"`
	AutoBackup        *bool   `json:"auto_backup_enabled,omitempty"`
	FSType            *string `json:"fstype,omitempty"`
	SnapshotID        *string `json:"snapshot_id,omitempty"`
	SourceVolumeID    *string `json:"source_volume_id,omitempty"`
}

// CreateVolume makes a volume. After a gateway error the app's volumes are read before a second create: exactly one
// unattached volume of that name, region and size that appeared since the call began counts as made.
func (c *Client) CreateVolume(ctx context.Context, app string, in CreateVolumeRequest) (Volume, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return Volume{}, fmt.Errorf("create volume %s of app %s: %w", in.Name, app, err)
	}
	r := request{op: "create volume " + in.Name, app: app, method: http.MethodPost, path: appPath(app, "volumes"), body: body, waitsFor: callTimeout}
	began := time.Now()
	for try := 1; ; try++ {
		resp, err := c.call(ctx, r)
		c.wrote(Write{Kind: WroteVolume, App: app})
		if err == nil {
			var v fly.Volume
			if err := decode(r, resp, &v); err != nil {
				return Volume{}, err
			}
			return volumeOf(&v), nil
		}
		if !unsure(err) || ctx.Err() != nil {
			return Volume{}, err
		}
		if serr := sleep(ctx, backoff(try)); serr != nil {
			return Volume{}, err
		}
		v, found, lerr := c.newVolume(ctx, app, in, began)
		switch {
		case lerr != nil:
			return Volume{}, fmt.Errorf("a volume %q may have been created in app %s: %w", in.Name, app, errors.Join(err, lerr))
		case found:
			return v, nil
		case try == 2:
			return Volume{}, err
		}
	}
}

// clockSkew is how far Fly's clock may be behind ours.
const clockSkew = time.Minute

func (c *Client) newVolume(ctx context.Context, app string, in CreateVolumeRequest, began time.Time) (Volume, bool, error) {
	all, err := c.ListVolumes(ctx, app)
	if err != nil {
		return Volume{}, false, err
	}
	var match []Volume
	for _, v := range all {
		if v.Name == in.Name && v.Region == in.Region && v.SizeGB == in.SizeGB && v.AttachedMachine == "" &&
			!v.Gone() && v.CreatedAt.After(began.Add(-clockSkew)) {
			match = append(match, v)
		}
	}
	switch len(match) {
	case 0:
		return Volume{}, false, nil
	case 1:
		return match[0], true, nil
	}
	return Volume{}, false, fmt.Errorf("%d new volumes fit (%s, %s …): delete the one you do not need, import the other", len(match), match[0].ID, match[1].ID)
}

// GetVolume reads one volume; IsNotFound holds when there is none. One that is being destroyed is still answered, see
// Volume.Gone.
func (c *Client) GetVolume(ctx context.Context, app, id string) (Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := c.typed.GetVolume(ctx, app, id)
	if err != nil {
		return Volume{}, c.fromTyped(ctx, request{op: "read volume " + id, app: app}, err)
	}
	return volumeOf(v), nil
}

// ListVolumes reads the volumes of one app, those on their way out included.
func (c *Client) ListVolumes(ctx context.Context, app string) ([]Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.typed.GetAllVolumes(ctx, app)
	if err != nil {
		return nil, c.fromTyped(ctx, request{op: "list volumes", app: app}, err)
	}
	out := make([]Volume, 0, len(list))
	for i := range list {
		out = append(out, volumeOf(&list[i]))
	}
	return out, nil
}

// ExtendVolume grows a volume to sizeGB. needsRestart says that the machine sees the size only after a restart.
func (c *Client) ExtendVolume(ctx context.Context, app, id string, sizeGB int) (v Volume, needsRestart bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	got, needsRestart, err := c.typed.ExtendVolume(ctx, app, id, sizeGB)
	c.wrote(Write{Kind: WroteVolume, App: app, ID: id})
	if err != nil {
		return Volume{}, false, c.fromTyped(ctx, request{op: "extend volume " + id, app: app}, err)
	}
	if got == nil {
		v, err := c.GetVolume(ctx, app, id)
		return v, needsRestart, err
	}
	return volumeOf(got), needsRestart, nil
}

// UpdateVolumeRequest changes a volume's keeping of snapshots. Nil leaves as it is.
type UpdateVolumeRequest struct {
	SnapshotRetention *int
	AutoBackup        *bool
}

// UpdateVolume changes the snapshot settings.
func (c *Client) UpdateVolume(ctx context.Context, app, id string, in UpdateVolumeRequest) (Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := c.typed.UpdateVolume(ctx, app, id, fly.UpdateVolumeRequest{SnapshotRetention: in.SnapshotRetention, AutoBackupEnabled: in.AutoBackup})
	c.wrote(Write{Kind: WroteVolume, App: app, ID: id})
	if err != nil {
		return Volume{}, c.fromTyped(ctx, request{op: "update volume " + id, app: app}, err)
	}
	return volumeOf(v), nil
}

// volumeUnbind is how long a volume may stay bound after its machine was destroyed: up to a minute was reported
// (fly-apps/terraform-provider-fly#218, #154).
const volumeUnbind = 2 * time.Minute

// DeleteVolume removes a volume. While a machine claims it, it is asked again for about 2 minutes, then the error names
// the machine. A volume that is gone already is no error.
func (c *Client) DeleteVolume(ctx context.Context, app, id string) error {
	deadline := time.Now().Add(volumeUnbind)
	r := request{op: "delete volume " + id, app: app}
	for try := 1; ; try++ {
		err := c.deleteVolume(ctx, r, app, id)
		switch {
		case err == nil || IsNotFound(err):
			return nil
		case !IsVolumeBound(err):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("volume %s of app %s is still bound to machine %s after %s; destroy or wait for that machine first: %w",
				id, app, orElse(VolumeHolder(err), "(unnamed)"), volumeUnbind, err)
		}
		if serr := sleep(ctx, backoff(min(try, 4))); serr != nil {
			return fmt.Errorf("%w (while waiting for machine %s to let go of the volume: %w)", err, VolumeHolder(err), serr)
		}
	}
}

func (c *Client) deleteVolume(ctx context.Context, r request, app, id string) error {
	tctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.typed.DeleteVolume(tctx, app, id)
	c.wrote(Write{Kind: WroteVolume, App: app, ID: id})
	return c.fromTyped(ctx, r, err)
}
