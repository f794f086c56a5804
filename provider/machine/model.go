package machine

import (
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// model is one flyfleet_machine as Terraform holds it. A nil field is one that nobody manages here: it is never sent,
// removed or shown.
type model struct {
	ID       types.String `tfsdk:"id"`
	App      string       `tfsdk:"app"`
	Region   string       `tfsdk:"region"`
	Name     string       `tfsdk:"name"`
	Image    types.String `tfsdk:"image"`
	Busy     types.String `tfsdk:"busy"`
	Drain    types.String `tfsdk:"drain_timeout"`
	Conflict types.String `tfsdk:"conflict"`

	Env        map[string]string `tfsdk:"env"`
	Metadata   map[string]string `tfsdk:"metadata"`
	Guest      *guestModel       `tfsdk:"guest"`
	Mounts     map[string]mount  `tfsdk:"mounts"`
	Services   []service         `tfsdk:"services"`
	Checks     map[string]check  `tfsdk:"checks"`
	StopConfig *stopConfig       `tfsdk:"stop_config"`
	Timeouts   timeouts.Value    `tfsdk:"timeouts"`
}

type guestModel struct {
	CPUKind  string `tfsdk:"cpu_kind"`
	CPUs     int64  `tfsdk:"cpus"`
	MemoryMB int64  `tfsdk:"memory_mb"`
}

// mount is keyed by its path.
type mount struct {
	VolumeID          string `tfsdk:"volume_id"`
	ReplaceWithVolume bool   `tfsdk:"replace_with_volume"`
	ExtendThreshold   *int64 `tfsdk:"extend_threshold_percent"`
	AddSizeGB         *int64 `tfsdk:"add_size_gb"`
	SizeGBLimit       *int64 `tfsdk:"size_gb_limit"`
}

type service struct {
	InternalPort       int64        `tfsdk:"internal_port"`
	Protocol           string       `tfsdk:"protocol"`
	Autostart          bool         `tfsdk:"autostart"`
	Autostop           string       `tfsdk:"autostop"`
	MinMachinesRunning int64        `tfsdk:"min_machines_running"`
	Ports              []port       `tfsdk:"ports"`
	Concurrency        *concurrency `tfsdk:"concurrency"`
}

type port struct {
	Port       *int64   `tfsdk:"port"`
	StartPort  *int64   `tfsdk:"start_port"`
	EndPort    *int64   `tfsdk:"end_port"`
	Handlers   []string `tfsdk:"handlers"`
	ForceHTTPS bool     `tfsdk:"force_https"`
}

type concurrency struct {
	Type      string `tfsdk:"type"`
	SoftLimit int64  `tfsdk:"soft_limit"`
	HardLimit *int64 `tfsdk:"hard_limit"`
}

// check is keyed by its name.
type check struct {
	Type        string  `tfsdk:"type"`
	Port        int64   `tfsdk:"port"`
	Interval    *string `tfsdk:"interval"`
	Timeout     *string `tfsdk:"timeout"`
	GracePeriod *string `tfsdk:"grace_period"`
	Method      *string `tfsdk:"method"`
	Path        *string `tfsdk:"path"`
	Protocol    *string `tfsdk:"protocol"`
}

type stopConfig struct {
	Signal  *string `tfsdk:"signal"`
	Timeout *string `tfsdk:"timeout"`
}
