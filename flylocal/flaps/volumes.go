package flaps

import (
	"net/http"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
)

func (a *api) volumeRoutes() map[string]handler {
	const v = "/v1/apps/{app}/volumes"
	return map[string]handler{
		"GET " + v:                      a.listVolumes,
		"POST " + v:                     a.createVolume,
		"GET " + v + "/{id}":            a.getVolume,
		"PUT " + v + "/{id}":            a.updateVolume,
		"DELETE " + v + "/{id}":         a.deleteVolume,
		"PUT " + v + "/{id}/extend":     a.extendVolume,
		"GET " + v + "/{id}/snapshots":  a.listSnapshots,
		"POST " + v + "/{id}/snapshots": a.createSnapshot,
	}
}

func (a *api) listVolumes(r *http.Request) (answer, error) {
	volumes, err := a.world.Volumes(appOf(r))
	return answer{status: http.StatusOK, body: array(volumes, volumeJSON)}, err
}

func (a *api) createVolume(r *http.Request) (answer, error) {
	var in struct {
		Name              string  `json:"name"`
		Region            string  `json:"region"`
		SizeGB            *int    `json:"size_gb"`
		Encrypted         *bool   `json:"encrypted"`
		SnapshotRetention *int    `json:"snapshot_retention"`
		AutoBackup        *bool   `json:"auto_backup_enabled"`
		FSType            *string `json:"fstype"`
		SnapshotID        *string `json:"snapshot_id"`
		SourceVolumeID    *string `json:"source_volume_id"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	v, err := a.world.CreateVolume(appOf(r), engine.VolumeInput(in))
	return answer{status: http.StatusOK, body: volumeJSON(v)}, err
}

func (a *api) getVolume(r *http.Request) (answer, error) {
	v, err := a.world.Volume(appOf(r), idOf(r))
	return answer{status: http.StatusOK, body: volumeJSON(v)}, err
}

func (a *api) updateVolume(r *http.Request) (answer, error) {
	var in struct {
		SnapshotRetention *int  `json:"snapshot_retention"`
		AutoBackup        *bool `json:"auto_backup_enabled"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	v, err := a.world.UpdateVolume(appOf(r), idOf(r), in.SnapshotRetention, in.AutoBackup)
	return answer{status: http.StatusOK, body: volumeJSON(v)}, err
}

func (a *api) deleteVolume(r *http.Request) (answer, error) {
	v, err := a.world.DeleteVolume(appOf(r), idOf(r))
	return answer{status: http.StatusOK, body: volumeJSON(v)}, err
}

func (a *api) extendVolume(r *http.Request) (answer, error) {
	var in struct {
		SizeGB int `json:"size_gb"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	v, restart, err := a.world.ExtendVolume(appOf(r), idOf(r), in.SizeGB)
	var o object
	o.raw("volume", volumeJSON(v))
	o.val("needs_restart", restart)
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) listSnapshots(r *http.Request) (answer, error) {
	snapshots, err := a.world.Snapshots(appOf(r), idOf(r))
	return answer{status: http.StatusOK, body: array(snapshots, snapshotJSON)}, err
}

func (a *api) createSnapshot(r *http.Request) (answer, error) {
	return answer{status: http.StatusOK}, a.world.CreateSnapshot(appOf(r), idOf(r))
}
