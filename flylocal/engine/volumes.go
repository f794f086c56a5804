package engine

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// VolumeInput is the body of a create; nil takes the default.
type VolumeInput struct {
	Name, Region      string
	SizeGB            *int
	Encrypted         *bool
	SnapshotRetention *int
	AutoBackup        *bool
	FSType            *string
	SnapshotID        *string
	SourceVolumeID    *string
}

var volumeName = regexp.MustCompile(`^[a-z0-9_]{1,30}$`)

const (
	defaultVolumeGB = 3
	maxVolumeGB     = 500
)

// volume finds a volume of an app. Call with the lock held.
func (w *World) volume(app, id string) (*state.Volume, error) {
	if _, err := w.app(app); err != nil {
		return nil, err
	}
	v, ok := w.volumes[id]
	if !ok || v.App != app {
		return nil, refuse(http.StatusNotFound, "volume not found")
	}
	return v, nil
}

// CreateVolume makes a volume. It is created at once: nothing here takes time.
func (w *World) CreateVolume(app string, in VolumeInput) (state.Volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.app(app); err != nil {
		return state.Volume{}, err
	}
	v := &state.Volume{
		ID: newVolumeID(), App: app, Name: in.Name, State: state.VolumeCreated, SizeGB: defaultVolumeGB,
		Zone: randomText(4, "0123456789abcdef"), Encrypted: true, SnapshotRetention: 5, AutoBackup: true, FSType: "ext4", HostStatus: "ok",
	}
	if err := w.fillVolume(v, in); err != nil {
		return state.Volume{}, err
	}
	if err := w.volumeRoom(v.Region); err != nil {
		return state.Volume{}, err
	}
	if err := os.MkdirAll(w.store.VolumeDir(v.ID), 0o700); err != nil {
		return state.Volume{}, err
	}
	v.CreatedAt = w.now()
	w.volumes[v.ID] = v
	w.saveVolume(v)
	return *v, nil
}

func (w *World) fillVolume(v *state.Volume, in VolumeInput) error {
	if !volumeName.MatchString(in.Name) {
		return invalid("volume name %q may hold up to 30 lowercase letters, digits and underscores", in.Name)
	}
	setTo(&v.SizeGB, in.SizeGB)
	setTo(&v.Encrypted, in.Encrypted)
	setTo(&v.SnapshotRetention, in.SnapshotRetention)
	setTo(&v.AutoBackup, in.AutoBackup)
	setTo(&v.FSType, in.FSType)
	if err := w.volumeOrigin(v, &in); err != nil {
		return err
	}
	var err error
	if v.Region, err = w.pickRegion(in.Region); err != nil {
		return err
	}
	switch {
	case v.SizeGB < 1 || v.SizeGB > maxVolumeGB:
		return invalid("size_gb must be between 1 and %d", maxVolumeGB)
	case v.FSType != "ext4" && v.FSType != "raw":
		return invalid("fstype %q must be ext4 or raw", v.FSType)
	}
	return checkRetention(v.SnapshotRetention)
}

func checkRetention(days int) error {
	if days < 1 || days > 60 {
		return invalid("snapshot_retention must be between 1 and 60")
	}
	return nil
}

// volumeOrigin checks what a volume is restored or forked from: it exists and is not larger.
func (w *World) volumeOrigin(v *state.Volume, in *VolumeInput) error {
	need := 0
	if id := in.SourceVolumeID; id != nil && *id != "" {
		source, err := w.volume(v.App, *id)
		if err != nil {
			return err
		}
		need = source.SizeGB
		if in.Region == "" {
			in.Region = source.Region
		}
		if in.SizeGB == nil {
			v.SizeGB = source.SizeGB
		}
	}
	if id := in.SnapshotID; id != nil && *id != "" {
		snapshot, ok := w.snapshot(*id)
		if !ok {
			return refuse(http.StatusNotFound, "snapshot not found")
		}
		need = snapshot.VolumeSize
		if in.SizeGB == nil {
			v.SizeGB = need
		}
	}
	if v.SizeGB < need {
		return invalid("size_gb must be at least %d, the size of what it is made from", need)
	}
	return nil
}

func (w *World) snapshot(id string) (state.Snapshot, bool) {
	for _, v := range w.volumes {
		for _, s := range v.Snapshots {
			if s.ID == id {
				return s, true
			}
		}
	}
	return state.Snapshot{}, false
}

func setTo[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Volume answers one volume.
func (w *World) Volume(app, id string) (state.Volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.volume(app, id)
	if err != nil {
		return state.Volume{}, err
	}
	return *v, nil
}

// FindVolume answers a volume by its id alone.
func (w *World) FindVolume(id string) (state.Volume, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.volumes[id]
	if !ok {
		return state.Volume{}, false
	}
	return *v, true
}

// Volumes lists an app's volumes, oldest first, those that wait for their destruction included.
func (w *World) Volumes(app string) ([]state.Volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.app(app); err != nil {
		return nil, err
	}
	all := []state.Volume{}
	for _, v := range w.volumes {
		if v.App == app {
			all = append(all, *v)
		}
	}
	slices.SortFunc(all, func(a, b state.Volume) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// UpdateVolume changes backup settings.
func (w *World) UpdateVolume(app, id string, retention *int, autoBackup *bool) (state.Volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.liveVolume(app, id)
	if err != nil {
		return state.Volume{}, err
	}
	if retention != nil {
		if err := checkRetention(*retention); err != nil {
			return state.Volume{}, err
		}
	}
	setTo(&v.SnapshotRetention, retention)
	setTo(&v.AutoBackup, autoBackup)
	w.saveVolume(v)
	return *v, nil
}

func (w *World) liveVolume(app, id string) (*state.Volume, error) {
	v, err := w.volume(app, id)
	if err == nil && v.State == state.VolumePendingDestroy {
		return nil, precondition("volume is being destroyed")
	}
	return v, err
}

// ExtendVolume makes a volume larger. It never needs a restart here: a directory has no size.
func (w *World) ExtendVolume(app, id string, sizeGB int) (v state.Volume, needsRestart bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stored, err := w.liveVolume(app, id)
	if err != nil {
		return state.Volume{}, false, err
	}
	if sizeGB <= stored.SizeGB || sizeGB > maxVolumeGB {
		return state.Volume{}, false, invalid("size_gb %d must be larger than the current %d and at most %d", sizeGB, stored.SizeGB, maxVolumeGB)
	}
	stored.SizeGB = sizeGB
	w.saveVolume(stored)
	return *stored, false, nil
}

// DeleteVolume destroys a volume: refused while a machine has it, then kept as pending_destroy.
func (w *World) DeleteVolume(app, id string) (state.Volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.volume(app, id)
	if err != nil {
		return state.Volume{}, err
	}
	if v.AttachedMachine != "" {
		return state.Volume{}, precondition("volume is currently bound to machine: %s", v.AttachedMachine)
	}
	if v.State != state.VolumePendingDestroy {
		v.State = state.VolumePendingDestroy
		w.saveVolume(v)
	}
	return *v, nil
}

// Snapshots lists a volume's snapshots, newest last.
func (w *World) Snapshots(app, id string) ([]state.Snapshot, error) {
	v, err := w.Volume(app, id)
	return v.Snapshots, err
}

// CreateSnapshot records a snapshot.
func (w *World) CreateSnapshot(app, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.liveVolume(app, id)
	if err != nil {
		return err
	}
	v.Snapshots = append(slices.Clone(v.Snapshots), state.Snapshot{
		ID: newSnapshotID(), VolumeSize: v.SizeGB, CreatedAt: w.now(), RetentionDays: v.SnapshotRetention, Digest: randomText(64, "0123456789abcdef"),
	})
	w.saveVolume(v)
	return nil
}

// volumeRoom refuses a volume that the quota or a full region forbids.
func (w *World) volumeRoom(region string) error {
	if slices.Contains(w.faults.NoCapacity, region) {
		return noCapacity()
	}
	if q := w.faults.VolumeQuota; q != nil && len(w.volumes) >= *q {
		return refuse(http.StatusUnprocessableEntity, "Your organization has reached its volume limit")
	}
	return nil
}

func noCapacity() *Refusal {
	r := refuse(http.StatusUnprocessableEntity, "could not find a candidate host")
	r.Code = "insufficient_capacity"
	return r
}

// removeVolume drops a volume's record at once and its files when the given operations have ended.
func (w *World) removeVolume(v *state.Volume, after []<-chan struct{}) {
	if err := w.store.DropVolume(v.ID); err != nil {
		w.log.Error("state was not saved", "volume", v.ID, "error", err)
	}
	dir := w.store.VolumeDir(v.ID)
	w.wg.Go(func() {
		for _, done := range after {
			<-done
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), cleanupTimeout)
		defer cancel()
		if err := w.runner.RemoveVolume(ctx, dir); err != nil {
			w.log.Warn("a volume's files remain", "volume", v.ID, "error", err)
		}
	})
}

const cleanupTimeout = time.Minute
