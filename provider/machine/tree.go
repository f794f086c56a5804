package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// tree is the part of a machine's configuration that is managed here, as a JSON object in Fly's words. Two lists of Fly's
// are objects in it, so that their elements have names: mounts by their path, services by their index.
//
// Leaves are string, bool, int64 or a list of such.
func tree(m model) map[string]any {
	t := map[string]any{}
	if !m.Image.IsNull() {
		t["image"] = m.Image.ValueString()
	}
	put(t, "env", stringMap(m.Env), m.Env != nil)
	put(t, "metadata", stringMap(m.Metadata), m.Metadata != nil)
	if m.Guest != nil {
		t["guest"] = map[string]any{"cpu_kind": m.Guest.CPUKind, "cpus": m.Guest.CPUs, "memory_mb": m.Guest.MemoryMB}
	}
	mounts := map[string]any{}
	for p, v := range m.Mounts {
		mounts[p] = mountTree(p, v)
	}
	put(t, "mounts", mounts, m.Mounts != nil)
	services := map[string]any{}
	for i, v := range m.Services {
		services[strconv.Itoa(i)] = serviceTree(v)
	}
	put(t, "services", services, m.Services != nil)
	checks := map[string]any{}
	for name, v := range m.Checks {
		checks[name] = checkTree(v)
	}
	put(t, "checks", checks, m.Checks != nil)
	if m.StopConfig != nil {
		stop := map[string]any{}
		optional(stop, "signal", m.StopConfig.Signal)
		optional(stop, "timeout", m.StopConfig.Timeout)
		t["stop_config"] = stop
	}
	return t
}

func put(t map[string]any, key string, value map[string]any, managed bool) {
	if managed {
		t[key] = value
	}
}

func optional[T any](t map[string]any, key string, v *T) {
	if v != nil {
		t[key] = *v
	}
}

func stringMap(m map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

func mountTree(path string, m mount) map[string]any {
	t := map[string]any{"path": path, "volume": m.VolumeID}
	optional(t, "extend_threshold_percent", m.ExtendThreshold)
	optional(t, "add_size_gb", m.AddSizeGB)
	optional(t, "size_gb_limit", m.SizeGBLimit)
	return t
}

func serviceTree(s service) map[string]any {
	t := map[string]any{
		"protocol": s.Protocol, "internal_port": s.InternalPort, "autostart": s.Autostart, "autostop": wireAutostop(s.Autostop),
	}
	if s.MinMachinesRunning != 0 {
		t["min_machines_running"] = s.MinMachinesRunning
	}
	ports := []any{}
	for _, p := range s.Ports {
		one := map[string]any{}
		optional(one, "port", p.Port)
		optional(one, "start_port", p.StartPort)
		optional(one, "end_port", p.EndPort)
		if len(p.Handlers) > 0 {
			one["handlers"] = stringList(p.Handlers)
		}
		if p.ForceHTTPS {
			one["force_https"] = true
		}
		ports = append(ports, one)
	}
	t["ports"] = ports
	if c := s.Concurrency; c != nil {
		limits := map[string]any{"type": c.Type, "soft_limit": c.SoftLimit}
		optional(limits, "hard_limit", c.HardLimit)
		t["concurrency"] = limits
	}
	return t
}

func checkTree(c check) map[string]any {
	t := map[string]any{"type": c.Type, "port": c.Port}
	optional(t, "interval", c.Interval)
	optional(t, "timeout", c.Timeout)
	optional(t, "grace_period", c.GracePeriod)
	optional(t, "method", c.Method)
	optional(t, "path", c.Path)
	optional(t, "protocol", c.Protocol)
	return t
}

func stringList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// wireAutostop: Fly writes off and stop as booleans, and reads them back as either (a provider with a bool attribute
// could no longer refresh a machine that had been set to "suspend").
func wireAutostop(s string) any {
	switch s {
	case "off":
		return false
	case "stop":
		return true
	}
	return s
}

// createConfig is the configuration that a create sends: the managed part, with the image's owner where none is declared,
// and the mark of a create that Terraform has not been told of.
func createConfig(m model) (json.RawMessage, error) {
	t := tree(m)
	metadata, _ := t["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		t["metadata"] = metadata
	}
	if _, declared := metadata[mark.OwnerKey]; !declared {
		metadata[mark.OwnerKey] = mark.Terraform
	}
	metadata[mark.CreateKey] = mark.Open
	raw, err := json.Marshal(wire(t))
	if err != nil {
		return nil, fmt.Errorf("write the machine's configuration: %w", err)
	}
	return raw, nil
}

// wire turns the named elements of a tree back into Fly's lists. A machine has one mount, so its order is no question;
// services keep theirs.
func wire(t map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range t {
		object, ok := v.(map[string]any)
		switch {
		case ok && k == "mounts":
			out[k] = sortedValues(object)
		case ok && k == "services":
			out[k] = indexed(object)
		default:
			out[k] = v
		}
	}
	return out
}

func sortedValues(object map[string]any) []any {
	list := make([]any, 0, len(object))
	for _, k := range slices.Sorted(maps.Keys(object)) {
		list = append(list, object[k])
	}
	return list
}

func indexed(object map[string]any) []any {
	list := make([]any, 0, len(object))
	for i := range len(object) {
		list = append(list, object[strconv.Itoa(i)])
	}
	return list
}
