// Package state holds what the platform remembers, and keeps it on disk: a journal of JSON lines, one a change, of which
// the last line of each app, machine and volume counts. A killed platform loses at most the line it was writing. The
// package knows no rules; package engine does.
package state

import (
	"net/netip"
	"time"
)

// App is an application with what hangs on it directly.
type App struct {
	ID        string    `json:"id"`
	NumericID int32     `json:"numeric_id"`
	Name      string    `json:"name"`
	Org       string    `json:"org"`
	Network   string    `json:"network"`
	Role      string    `json:"role,omitempty"`
	CreatedAt time.Time `json:"created_at"`

	IPs []IP `json:"ips,omitempty"`

	// SecretsVersion rises with each write of any kind, also one that changes nothing.
	SecretsVersion uint64   `json:"secrets_version"`
	Secrets        []Secret `json:"secrets,omitempty"`

	// Releases are those that clients recorded, oldest first.
	Releases []Release `json:"releases,omitempty"`
}

// IP types as Fly names them.
const (
	IPv4        = "v4"
	IPSharedV4  = "shared_v4"
	IPv6        = "v6"
	IPPrivateV6 = "private_v6"
)

// IP is an address of an app.
type IP struct {
	ID        string     `json:"id"`
	Address   netip.Addr `json:"address"`
	Type      string     `json:"type"`
	Region    string     `json:"region,omitempty"`
	Service   string     `json:"service,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	// Network is the private network that reaches a private_v6 address.
	Network string `json:"network,omitempty"`
}

// Secret is one app secret.
type Secret struct {
	Name      string    `json:"name"`
	Value     string    `json:"value"`
	Digest    string    `json:"digest"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Release is a deployment that a client recorded.
type Release struct {
	ID        string    `json:"id"`
	Version   int       `json:"version"`
	Status    string    `json:"status"`
	Strategy  string    `json:"strategy,omitempty"`
	ImageRef  string    `json:"image_ref,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// Machine states, as in Fly's machine-states document.
const (
	Created    = "created"
	Starting   = "starting"
	Started    = "started"
	Stopping   = "stopping"
	Stopped    = "stopped"
	Suspending = "suspending"
	Suspended  = "suspended"
	Restarting = "restarting"
	Replacing  = "replacing"
	Replaced   = "replaced"
	Failed     = "failed"
	Destroying = "destroying"
	Destroyed  = "destroyed"
)

// Machine is a machine with its history.
type Machine struct {
	ID         string     `json:"id"`
	App        string     `json:"app"`
	Name       string     `json:"name"`
	Region     string     `json:"region"`
	State      string     `json:"state"`
	InstanceID string     `json:"instance_id"`
	PrivateIP  netip.Addr `json:"private_ip"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	Cordoned   bool       `json:"cordoned"`

	// Config is the JSON text as its sender wrote it, with what the platform fills in.
	Config []byte `json:"config"`
	// Image is what config.image resolved to.
	Image ImageRef `json:"image"`
	// Mounts are the volumes bound to it.
	Mounts []Mount `json:"mounts,omitempty"`

	// SkipLaunch says that the boot in progress ends before the machine starts.
	SkipLaunch bool `json:"skip_launch,omitempty"`
	// Revert is set while a new version replaces an old one.
	Revert *Revert `json:"revert,omitempty"`

	// Versions are the machine's configs, oldest first; the last one is current or failed to become so.
	Versions []Version `json:"versions"`
	// Events are oldest first, bounded.
	Events []Event `json:"events"`
	Lease  *Lease  `json:"lease,omitempty"`

	// Secrets is the environment taken from the app's secrets at create or update.
	Secrets        []Secret `json:"secrets,omitempty"`
	SecretsVersion uint64   `json:"secrets_version,omitempty"`
	// HostStatus is "ok" but where a fault says otherwise.
	HostStatus string `json:"host_status"`
}

// ImageRef is a resolved image reference.
type ImageRef struct {
	Registry   string            `json:"registry"`
	Repository string            `json:"repository"`
	Tag        string            `json:"tag,omitempty"`
	Digest     string            `json:"digest,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// String is registry/repository[:tag][@digest].
func (r ImageRef) String() string {
	s := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Mount binds a volume to a path.
type Mount struct {
	VolumeID string `json:"volume_id"`
	Path     string `json:"path"`
}

// Revert is what a failed image pull puts back.
type Revert struct {
	State      string   `json:"state"`
	InstanceID string   `json:"instance_id"`
	Config     []byte   `json:"config"`
	Image      ImageRef `json:"image"`
	Mounts     []Mount  `json:"mounts,omitempty"`
	Cordoned   bool     `json:"cordoned"`
	Secrets    []Secret `json:"secrets,omitempty"`
	// SecretsVersion belongs to Secrets.
	SecretsVersion uint64 `json:"secrets_version,omitempty"`
}

// Version is one config of a machine.
type Version struct {
	InstanceID string `json:"instance_id"`
	Config     []byte `json:"config"`
	// Outcome is empty for the current version, Replaced for one that was superseded, Failed for one whose image
	// could not be pulled.
	Outcome string `json:"outcome,omitempty"`
}

// Event is one entry of a machine's log.
type Event struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Status    string    `json:"status"`
	Source    string    `json:"source"`
	Timestamp time.Time `json:"timestamp"`
	Exit      *Exit     `json:"exit,omitempty"`
}

// Exit is how a machine's process ended.
type Exit struct {
	Code          int       `json:"code"`
	Signal        int       `json:"signal"`
	OOMKilled     bool      `json:"oom_killed"`
	RequestedStop bool      `json:"requested_stop"`
	Restarting    bool      `json:"restarting"`
	At            time.Time `json:"at"`
	RestartCount  int       `json:"restart_count"`
}

// Lease is a machine's lease.
type Lease struct {
	Nonce       string    `json:"nonce"`
	Owner       string    `json:"owner"`
	Description string    `json:"description"`
	ExpiresAt   time.Time `json:"expires_at"`
}

// Volume states.
const (
	VolumeCreating       = "creating"
	VolumeCreated        = "created"
	VolumePendingDestroy = "pending_destroy"
)

// Volume is a volume and its snapshots.
type Volume struct {
	ID                string     `json:"id"`
	App               string     `json:"app"`
	Name              string     `json:"name"`
	State             string     `json:"state"`
	SizeGB            int        `json:"size_gb"`
	Region            string     `json:"region"`
	Zone              string     `json:"zone"`
	Encrypted         bool       `json:"encrypted"`
	AttachedMachine   string     `json:"attached_machine,omitempty"`
	CreatedAt         time.Time  `json:"created_at"`
	UpdatedAt         time.Time  `json:"updated_at"`
	SnapshotRetention int        `json:"snapshot_retention"`
	AutoBackup        bool       `json:"auto_backup"`
	FSType            string     `json:"fstype"`
	Snapshots         []Snapshot `json:"snapshots,omitempty"`
	HostStatus        string     `json:"host_status"`
}

// Snapshot is a snapshot of a volume: here a record only, its bytes are not kept.
type Snapshot struct {
	ID            string    `json:"id"`
	VolumeSize    int       `json:"volume_size"`
	Digest        string    `json:"digest"`
	CreatedAt     time.Time `json:"created_at"`
	RetentionDays int       `json:"retention_days"`
}

// Platform is what the platform knows of itself.
type Platform struct {
	Token string `json:"token"`
	Org   string `json:"org"`
	// Networks numbers the private networks: the 32 bits after fdaa.
	Networks map[string]uint32 `json:"networks"`
	// Next is the end of the numbers that may have been given; a number is never given twice.
	Next uint32 `json:"next"`
	// ForeignApps are names that another organization holds.
	ForeignApps []string `json:"foreign_apps,omitempty"`
}
