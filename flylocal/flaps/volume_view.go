package flaps

import (
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func appJSON(a engine.AppView) []byte {
	var org, o object
	org.str("name", a.Org)
	org.str("slug", a.Org)
	org.val("internal_numeric_id", OrgNumber)
	o.str("id", a.ID)
	o.str("name", a.Name)
	o.val("internal_numeric_id", a.NumericID)
	o.str("network", a.Network)
	o.str("status", a.Status)
	o.val("machine_count", a.Machines)
	o.val("volume_count", a.Volumes)
	o.raw("organization", org.bytes())
	o.str("cname_target", a.ID+"."+a.Name+".fly.dev")
	o.str("app_role", a.Role)
	return o.bytes()
}

// OrgNumber is the internal numeric id of the one organization.
const OrgNumber = 1

// blockSize is that of the volumes' pretended file system.
const blockSize = 4096

func volumeJSON(v state.Volume) []byte { return volumeShape(v, false) }

func orgVolumeJSON(v state.Volume) []byte { return volumeShape(v, true) }

func volumeShape(v state.Volume, org bool) []byte {
	var o object
	o.str("id", v.ID)
	o.str("name", v.Name)
	o.str("state", v.State)
	o.val("size_gb", v.SizeGB)
	o.str("region", v.Region)
	if org {
		o.str("app_name", v.App)
	}
	o.str("zone", v.Zone)
	o.val("encrypted", v.Encrypted)
	o.nullable("attached_machine_id", v.AttachedMachine)
	o.nullable("attached_alloc_id", "")
	o.time("created_at", v.CreatedAt)
	o.time("updated_at", v.UpdatedAt)
	o.str("host_dedication_id", "")
	o.val("snapshot_retention", v.SnapshotRetention)
	o.val("auto_backup_enabled", v.AutoBackup)
	o.val("blocks", v.SizeGB<<30/blockSize)
	o.val("block_size", blockSize)
	o.val("blocks_free", v.SizeGB<<30/blockSize)
	o.val("blocks_avail", v.SizeGB<<30/blockSize)
	o.str("fstype", v.FSType)
	o.str("host_status", v.HostStatus)
	return o.bytes()
}

func snapshotJSON(s state.Snapshot) []byte {
	var o object
	o.str("id", s.ID)
	o.val("size", s.VolumeSize<<30)
	o.val("volume_size", s.VolumeSize<<30)
	o.str("digest", s.Digest)
	o.time("created_at", s.CreatedAt)
	o.str("status", "created")
	o.val("retention_days", s.RetentionDays)
	return o.bytes()
}

func ipJSON(ip state.IP) []byte {
	var o object
	o.str("ip", ip.Address.String())
	o.str("region", region(ip))
	o.str("service_name", ip.Service)
	o.val("shared", ip.Type == state.IPSharedV4)
	o.time("created_at", ip.CreatedAt)
	if ip.Network != "" {
		o.str("network", ip.Network)
	}
	return o.bytes()
}

// region is "global" where an address has none, as Fly shows it.
func region(ip state.IP) string {
	if ip.Region == "" {
		return "global"
	}
	return ip.Region
}

func secretJSON(show bool) func(state.Secret) []byte {
	return func(s state.Secret) []byte {
		var o object
		secretMembers(&o, s, show)
		return o.bytes()
	}
}

func secretMembers(o *object, s state.Secret, show bool) {
	o.str("name", s.Name)
	if show {
		o.str("value", s.Value)
	}
	o.str("digest", s.Digest)
	o.str("created_at", s.CreatedAt.Format(time.RFC3339))
	o.str("updated_at", s.UpdatedAt.Format(time.RFC3339))
}

func leaseJSON(l engine.LeaseView) []byte {
	var data, o object
	data.str("nonce", l.Nonce)
	data.val("expires_at", l.ExpiresAt.Unix())
	data.str("owner", l.Owner)
	data.str("description", l.Description)
	data.str("version", l.Version)
	o.str("status", "success")
	o.raw("data", data.bytes())
	return o.bytes()
}
