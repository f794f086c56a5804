package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// remote is what a machine's configuration says of the typed attributes. Fields that the provider does not type are not
// even read.
type remote struct {
	Image      string                 `json:"image"`
	Env        map[string]string      `json:"env"`
	Metadata   map[string]string      `json:"metadata"`
	Guest      *remoteGuest           `json:"guest"`
	Mounts     []remoteMount          `json:"mounts"`
	Services   []remoteService        `json:"services"`
	Checks     map[string]remoteCheck `json:"checks"`
	StopConfig *remoteStop            `json:"stop_config"`
}

type remoteGuest struct {
	CPUKind  string `json:"cpu_kind"`
	CPUs     int64  `json:"cpus"`
	MemoryMB int64  `json:"memory_mb"`
}

type remoteMount struct {
	Path            string `json:"path"`
	Volume          string `json:"volume"`
	ExtendThreshold *int64 `json:"extend_threshold_percent"`
	AddSizeGB       *int64 `json:"add_size_gb"`
	SizeGBLimit     *int64 `json:"size_gb_limit"`
}

type remoteService struct {
	Protocol           string   `json:"protocol"`
	InternalPort       int64    `json:"internal_port"`
	Autostart          *bool    `json:"autostart"`
	Autostop           autostop `json:"autostop"`
	MinMachinesRunning *int64   `json:"min_machines_running"`
	Ports              []struct {
		Port       *int64   `json:"port"`
		StartPort  *int64   `json:"start_port"`
		EndPort    *int64   `json:"end_port"`
		Handlers   []string `json:"handlers"`
		ForceHTTPS bool     `json:"force_https"`
	} `json:"ports"`
	Concurrency *struct {
		Type      string `json:"type"`
		SoftLimit int64  `json:"soft_limit"`
		HardLimit *int64 `json:"hard_limit"`
	} `json:"concurrency"`
}

type remoteCheck struct {
	Type        string    `json:"type"`
	Port        int64     `json:"port"`
	Interval    *duration `json:"interval"`
	Timeout     *duration `json:"timeout"`
	GracePeriod *duration `json:"grace_period"`
	Method      *string   `json:"method"`
	Path        *string   `json:"path"`
	Protocol    *string   `json:"protocol"`
}

type remoteStop struct {
	Signal  *string   `json:"signal"`
	Timeout *duration `json:"timeout"`
}

// autostop is read as a boolean or a word (a provider that took only booleans could not refresh "suspend").
type autostop string

// UnmarshalJSON implements json.Unmarshaler.
func (a *autostop) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "null", "false":
		*a = "off"
	case "true":
		*a = "stop"
	default:
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("autostop is neither a boolean nor a word: %s", raw)
		}
		*a = autostop(s)
	}
	return nil
}

// duration is text, or a number of nanoseconds in old configurations.
type duration string

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*d = duration(s)
		return nil
	}
	var n int64
	if err := json.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("a duration is neither text nor a number: %s", raw)
	}
	*d = duration(time.Duration(n).String())
	return nil
}

func readRemote(config json.RawMessage) (remote, error) {
	var r remote
	if err := json.Unmarshal(config, &r); err != nil {
		return remote{}, fmt.Errorf("read the machine's configuration: %w", err)
	}
	return r, nil
}

// full fills every typed attribute from a machine's configuration, as an import does.
func full(r remote) model {
	m := model{Image: types.StringValue(r.Image)}
	if len(r.Env) > 0 {
		m.Env = maps.Clone(r.Env)
	}
	if len(r.Metadata) > 0 {
		m.Metadata = maps.Clone(r.Metadata)
	}
	if r.Guest != nil {
		g := guestModel(*r.Guest)
		m.Guest = &g
	}
	if len(r.Mounts) > 0 {
		m.Mounts = map[string]mount{}
		for _, v := range r.Mounts {
			m.Mounts[v.Path] = v.model()
		}
	}
	for _, v := range r.Services {
		m.Services = append(m.Services, v.model())
	}
	if len(r.Checks) > 0 {
		m.Checks = map[string]check{}
		for name, v := range r.Checks {
			m.Checks[name] = v.model()
		}
	}
	if r.StopConfig != nil && (r.StopConfig.Signal != nil || r.StopConfig.Timeout != nil) {
		m.StopConfig = &stopConfig{Signal: r.StopConfig.Signal, Timeout: (*string)(r.StopConfig.Timeout)}
	}
	return m
}

func (v remoteMount) model() mount {
	return mount{VolumeID: v.Volume, ExtendThreshold: positive(v.ExtendThreshold), AddSizeGB: positive(v.AddSizeGB), SizeGBLimit: positive(v.SizeGBLimit)}
}

// positive reads Fly's 0 as "not set".
func positive(n *int64) *int64 {
	if n == nil || *n == 0 {
		return nil
	}
	return n
}

func (v remoteService) model() service {
	s := service{
		InternalPort: v.InternalPort, Protocol: v.Protocol, Autostart: v.Autostart == nil || *v.Autostart, Autostop: string(v.Autostop),
	}
	if s.Protocol == "" {
		s.Protocol = "tcp"
	}
	if s.Autostop == "" {
		s.Autostop = "off"
	}
	if v.MinMachinesRunning != nil {
		s.MinMachinesRunning = *v.MinMachinesRunning
	}
	for _, p := range v.Ports {
		one := port{Port: p.Port, StartPort: p.StartPort, EndPort: p.EndPort, ForceHTTPS: p.ForceHTTPS}
		if len(p.Handlers) > 0 {
			one.Handlers = p.Handlers
		}
		s.Ports = append(s.Ports, one)
	}
	if c := v.Concurrency; c != nil {
		s.Concurrency = &concurrency{Type: c.Type, SoftLimit: c.SoftLimit, HardLimit: c.HardLimit}
	}
	return s
}

func (v remoteCheck) model() check {
	return check{
		Type: v.Type, Port: v.Port, Interval: (*string)(v.Interval), Timeout: (*string)(v.Timeout), GracePeriod: (*string)(v.GracePeriod),
		Method: v.Method, Path: v.Path, Protocol: v.Protocol,
	}
}

// project is state with the values that the machine has now, on the managed paths only: what is null in state stays
// null, keys that state does not know stay unknown to it, and a value that is only spelled otherwise keeps its spelling.
// So what others set on the machine is never shown as a change, and what they changed of ours is.
func project(state model, r remote) model {
	now := full(r)
	out := state
	out.Image = projectImage(state, now)
	out.Env = projectMap(state.Env, now.Env)
	out.Metadata = projectMap(state.Metadata, now.Metadata)
	if state.Guest != nil {
		out.Guest = now.Guest
	}
	if state.Mounts != nil {
		out.Mounts = map[string]mount{}
		for path, old := range state.Mounts {
			if v, ok := now.Mounts[path]; ok {
				out.Mounts[path] = projectMount(old, v)
			}
		}
	}
	if state.Services != nil {
		out.Services = projectServices(state.Services, now.Services)
	}
	if state.Checks != nil {
		out.Checks = map[string]check{}
		for name, old := range state.Checks {
			if v, ok := now.Checks[name]; ok {
				out.Checks[name] = projectCheck(old, v)
			}
		}
	}
	if state.StopConfig != nil {
		stop := stopConfig{}
		if now.StopConfig != nil {
			stop = *now.StopConfig
		}
		out.StopConfig = &stopConfig{Signal: managed(state.StopConfig.Signal, stop.Signal), Timeout: managed(state.StopConfig.Timeout, stop.Timeout)}
	}
	return out
}

// projectImage leaves the image as declared where the rollout owns it: its swaps are no drift.
func projectImage(state, now model) types.String {
	if state.Metadata[mark.OwnerKey] == mark.Rollout && now.Metadata[mark.OwnerKey] == mark.Rollout && !state.Image.IsNull() {
		return state.Image
	}
	if imageref.Same(state.Image.ValueString(), now.Image.ValueString()) {
		return state.Image
	}
	return now.Image
}

func projectMap(state, now map[string]string) map[string]string {
	if state == nil {
		return nil
	}
	out := map[string]string{}
	for k := range state {
		if v, ok := now[k]; ok {
			out[k] = v
		}
	}
	return out
}

func projectMount(old, now mount) mount {
	return mount{
		VolumeID: now.VolumeID, ReplaceWithVolume: old.ReplaceWithVolume, ExtendThreshold: managedInt(old.ExtendThreshold, now.ExtendThreshold),
		AddSizeGB: managedInt(old.AddSizeGB, now.AddSizeGB), SizeGBLimit: managedInt(old.SizeGBLimit, now.SizeGBLimit),
	}
}

func projectServices(state, now []service) []service {
	out := make([]service, 0, len(now))
	for i, v := range now {
		if i < len(state) {
			v = projectService(state[i], v)
		}
		out = append(out, v)
	}
	return out
}

func projectService(old, now service) service {
	if old.InternalPort != now.InternalPort || old.Protocol != now.Protocol {
		return now
	}
	if old.Concurrency == nil {
		now.Concurrency = nil
	} else if now.Concurrency != nil && old.Concurrency.HardLimit == nil {
		limits := *now.Concurrency
		limits.HardLimit = nil
		now.Concurrency = &limits
	}
	return now
}

func projectCheck(old, now check) check {
	return check{
		Type: now.Type, Port: now.Port, Interval: managed(old.Interval, now.Interval), Timeout: managed(old.Timeout, now.Timeout),
		GracePeriod: managed(old.GracePeriod, now.GracePeriod), Method: managed(old.Method, now.Method), Path: managed(old.Path, now.Path),
		Protocol: managed(old.Protocol, now.Protocol),
	}
}

// managed is now's value of a field that state manages, in state's spelling where both mean the same.
func managed(state, now *string) *string {
	if state == nil || now == nil {
		return nil
	}
	if sameAt(nil, *state, *now) || strings.EqualFold(*state, *now) {
		return state
	}
	return now
}

func managedInt(state, now *int64) *int64 {
	if state == nil {
		return nil
	}
	return now
}
