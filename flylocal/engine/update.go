package engine

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// UpdateMachine replaces a machine's whole config by a new version. The answer shows the new version as replacing;
// the rest happens after it (see replace).
func (w *World) UpdateMachine(app, id, nonce string, in MachineInput) (MachineView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return MachineView{}, err
	}
	a := w.apps[app]
	conf, image, err := w.check(a, in)
	if err != nil {
		return MachineView{}, err
	}
	if err := w.updatable(m, in); err != nil {
		return MachineView{}, err
	}
	raw, mounts, err := w.rebind(m, conf, in)
	if err != nil {
		return MachineView{}, err
	}
	if raw, err = fillGuest(raw, conf); err != nil {
		return MachineView{}, err
	}
	m.Revert = &state.Revert{
		State: m.State, InstanceID: m.InstanceID, Config: m.Config, Image: m.Image, Mounts: m.Mounts, Cordoned: m.Cordoned,
		Secrets: m.Secrets, SecretsVersion: m.SecretsVersion,
	}
	w.attach(m, mounts)
	m.State, m.InstanceID, m.Config, m.Image = state.Replacing, newULID(), raw, image
	m.Cordoned, m.SkipLaunch = in.SkipServiceRegistration, in.SkipLaunch
	if !in.SkipSecrets {
		m.Secrets, m.SecretsVersion = a.Secrets, a.SecretsVersion
	}
	w.addVersion(m)
	w.event(m, "update", state.Replacing, "user")
	w.touch(m)
	view := w.view(m)
	w.begin(m, w.replace)
	return view, nil
}

func (w *World) addVersion(m *machine) {
	versions := slices.Clone(m.Versions)
	if len(versions) >= maxVersions {
		versions = versions[1:]
	}
	m.Versions = append(versions, state.Version{InstanceID: m.InstanceID, Config: m.Config})
}

// updatable refuses an update that Fly would refuse whatever the config says.
func (w *World) updatable(m *machine, in MachineInput) error {
	if in.CurrentVersion != "" && in.CurrentVersion != m.InstanceID {
		return refuse(http.StatusConflict, "aborted: machine version %s is not current, the current one is %s", in.CurrentVersion, m.InstanceID)
	}
	switch m.State {
	case state.Replacing, state.Stopping, state.Suspending, state.Restarting:
		return refuse(http.StatusConflict, "aborted: machine update failed due to concurrent update")
	case state.Destroying:
		return precondition("unable to update machine from current state: '%s'", m.State)
	case state.Created:
		// An update while the machine is still being made would race with its first boot.
		return refuse(http.StatusConflict, "aborted: machine update failed due to concurrent update")
	}
	if in.Name != "" && in.Name != m.Name {
		return invalid("machine name can't be changed")
	}
	if in.Region != "" {
		codes, err := w.regionsOf(in.Region)
		if err != nil {
			return err
		}
		if !slices.Contains(codes, m.Region) {
			return invalid("machine region can't be changed")
		}
	}
	return nil
}

// rebind checks the mounts of an update: paths may change, a first volume may be added, the volume itself may not
// change or go.
func (w *World) rebind(m *machine, conf *machineconf.Config, in MachineInput) ([]byte, []state.Mount, error) {
	raw := []byte(in.Config)
	if len(m.Mounts) > 0 && len(conf.Mounts) != len(m.Mounts) {
		return nil, nil, invalid("volume %s can't be detached from machine %s", m.Mounts[0].VolumeID, m.ID)
	}
	var mounts []state.Mount
	for i, want := range conf.Mounts {
		byName := want.Volume == ""
		if len(m.Mounts) > 0 {
			bound := m.Mounts[i].VolumeID
			if v := w.volumes[bound]; byName && v != nil && v.Name == want.Name {
				want.Volume = bound
			}
			if want.Volume != bound {
				return nil, nil, invalid("machine %s mounts volume %s, it can't be changed to %s", m.ID, bound, want.Volume)
			}
		}
		v, err := w.claimable(m, want, m.Region)
		if err != nil {
			return nil, nil, err
		}
		if byName {
			if raw, err = rawjson.Set(raw, rawjson.String(v.ID), "mounts", strconv.Itoa(i), "volume"); err != nil {
				return nil, nil, err
			}
		}
		mounts = append(mounts, state.Mount{VolumeID: v.ID, Path: want.Path})
	}
	return raw, mounts, nil
}
