package engine

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Images finds images for machines.
type Images interface {
	// Resolve answers what a reference stands for as far as that is known without a pull. An error means that the
	// text is no reference.
	Resolve(ref string) (state.ImageRef, error)
	// Pull fetches an image; the image is nil where the runner needs none.
	Pull(ctx context.Context, ref string) (state.ImageRef, v1.Image, error)
}

// MachineInput is the body of a create or update.
type MachineInput struct {
	Name                    string
	Region                  string
	Config                  json.RawMessage
	SkipLaunch              bool
	SkipServiceRegistration bool
	SkipSecrets             bool
	MinSecretsVersion       uint64
	LeaseTTL                int
	// CurrentVersion is the instance id that the caller believes to be current; update only.
	CurrentVersion string
}

var machineName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`)

// CreateMachine makes a machine and starts its boot; the answer shows it as created.
func (w *World) CreateMachine(app string, in MachineInput) (MachineView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return MachineView{}, err
	}
	conf, image, err := w.check(a, in)
	if err != nil {
		return MachineView{}, err
	}
	m := &machine{changed: make(chan struct{})}
	m.Machine = state.Machine{
		ID: newMachineID(), App: app, Name: in.Name, State: state.Created, InstanceID: newULID(), Image: image,
		Cordoned: in.SkipServiceRegistration, SkipLaunch: in.SkipLaunch, HostStatus: "ok",
	}
	if err := w.nameMachine(m); err != nil {
		return MachineView{}, err
	}
	raw, mounts, err := w.bind(m, conf, in)
	if err != nil {
		return MachineView{}, err
	}
	if m.Config, err = fillGuest(raw, conf); err != nil {
		return MachineView{}, err
	}
	if err := w.machineRoom(m.Region); err != nil {
		return MachineView{}, err
	}
	w.attach(m, mounts)
	m.PrivateIP = w.privateIP(a.Network)
	m.CreatedAt = w.now()
	if !in.SkipSecrets {
		m.Secrets, m.SecretsVersion = a.Secrets, a.SecretsVersion
	}
	if in.LeaseTTL > 0 {
		m.Lease = w.newLease(in.LeaseTTL, "")
	}
	m.Versions = []state.Version{{InstanceID: m.InstanceID, Config: m.Config}}
	w.event(m, "launch", state.Created, "user")
	w.machines[m.ID] = m
	w.touch(m)
	view := w.view(m)
	w.begin(m, w.bootNew)
	return view, nil
}

// check validates what create and update share. Call with the lock held.
func (w *World) check(a *state.App, in MachineInput) (*machineconf.Config, state.ImageRef, error) {
	if len(in.Config) == 0 || in.Config[0] != '{' {
		return nil, state.ImageRef{}, invalid("config is required and must be an object")
	}
	conf, err := machineconf.Parse(in.Config)
	if err != nil {
		return nil, state.ImageRef{}, invalid("%s", err)
	}
	if err := conf.Validate(); err != nil {
		return nil, state.ImageRef{}, invalid("%s", err)
	}
	image, err := w.images.Resolve(conf.Image)
	if err != nil {
		return nil, state.ImageRef{}, invalid("%s", err)
	}
	return conf, image, checkSecretsVersion(a, in.MinSecretsVersion)
}

func fillGuest(raw []byte, conf *machineconf.Config) ([]byte, error) {
	guest, err := conf.ResolvedGuest()
	if err != nil {
		return nil, invalid("%s", err)
	}
	return machineconf.FillGuest(raw, guest)
}

// nameMachine checks the wanted name, or makes one. A machine that is being destroyed still holds its name.
func (w *World) nameMachine(m *machine) error {
	if m.Name == "" {
		m.Name = newMachineName()
	}
	if !machineName.MatchString(m.Name) {
		return invalid("machine name %q may hold letters, digits, dashes and underscores", m.Name)
	}
	for _, other := range w.machines {
		if other.App == m.App && other.Name == m.Name && other.State != state.Destroyed {
			return refuse(http.StatusConflict, "already_exists: unique machine name violation, machine ID %s already exists with name %q", other.ID, m.Name)
		}
	}
	return nil
}

// bind picks the region and the volumes of a new machine. For a mount by name the volume's id is written into the
// config's text, as Fly does; all else stays as sent.
func (w *World) bind(m *machine, conf *machineconf.Config, in MachineInput) ([]byte, []state.Mount, error) {
	raw := []byte(in.Config)
	region := in.Region
	var mounts []state.Mount
	for i, want := range conf.Mounts {
		v, err := w.claimable(m, want, in.Region)
		if err != nil {
			return nil, nil, err
		}
		if want.Volume == "" {
			if raw, err = rawjson.Set(raw, rawjson.String(v.ID), "mounts", strconv.Itoa(i), "volume"); err != nil {
				return nil, nil, err
			}
		}
		region = v.Region
		mounts = append(mounts, state.Mount{VolumeID: v.ID, Path: want.Path})
	}
	var err error
	m.Region, err = w.pickRegion(region)
	return raw, mounts, err
}

// claimable finds the volume of a mount and refuses one that another machine has or that stands elsewhere.
func (w *World) claimable(m *machine, want machineconf.Mount, region string) (*state.Volume, error) {
	codes, err := w.regionsOf(region)
	if err != nil {
		return nil, err
	}
	fits := func(v *state.Volume) bool { return region == "" || slices.Contains(codes, v.Region) }
	if want.Volume == "" {
		for _, v := range w.volumes {
			if v.App == m.App && v.Name == want.Name && v.AttachedMachine == "" && v.State == state.VolumeCreated && fits(v) {
				return v, nil
			}
		}
		return nil, precondition("no unattached volume named %q", want.Name)
	}
	v, err := w.liveVolume(m.App, want.Volume)
	if err != nil {
		return nil, err
	}
	switch {
	case v.AttachedMachine != "" && v.AttachedMachine != m.ID:
		return nil, precondition("volume already claimed by machine %s", v.AttachedMachine)
	case !fits(v):
		return nil, invalid("volume %s is in region %s, not in %s", v.ID, v.Region, region)
	case w.full(v.Region) && v.AttachedMachine == "":
		r := refuse(http.StatusPreconditionFailed, "insufficient resources to create new machine with existing volume id '%s'", v.ID)
		r.Code = "volume_placement_capacity"
		return nil, r
	}
	return v, nil
}

// attach binds the volumes to the machine. Call with the lock held.
func (w *World) attach(m *machine, mounts []state.Mount) {
	m.Mounts = mounts
	for _, mount := range mounts {
		if v := w.volumes[mount.VolumeID]; v != nil && v.AttachedMachine != m.ID {
			v.AttachedMachine = m.ID
			w.saveVolume(v)
		}
	}
}

// machineRoom refuses a machine that the quota or a full region forbids.
func (w *World) machineRoom(region string) error {
	if w.full(region) {
		return noCapacity()
	}
	if q := w.faults.MachineQuota; q != nil {
		count := 0
		for _, m := range w.machines {
			if m.State != state.Destroyed {
				count++
			}
		}
		if count >= *q {
			return refuse(http.StatusUnprocessableEntity, "Your organization has reached its machine limit. Please contact billing@fly.io")
		}
	}
	return nil
}
