package ociimage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const epoch = "1970-01-01T00:00:00Z"

// config is the image config: the base's, key by key as it is, with our changes and layers.
func (s Spec) config(base []byte, layers []*layer) ([]byte, error) {
	top := map[string]json.RawMessage{}
	if len(base) > 0 {
		if err := json.Unmarshal(base, &top); err != nil {
			return nil, err
		}
	}
	var rootfs struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	var history []json.RawMessage
	run := map[string]json.RawMessage{}
	for key, into := range map[string]any{"rootfs": &rootfs, "history": &history, "config": &run} {
		if raw, ok := top[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	rootfs.Type = "layers"
	for _, l := range layers {
		rootfs.DiffIDs = append(rootfs.DiffIDs, l.diffID.String())
		if len(history) > 0 { // a base with a history keeps one entry a layer
			history = append(history, json.RawMessage(`{"created":"`+epoch+`","created_by":"flyfleet"}`))
		}
	}
	if rootfs.DiffIDs == nil {
		rootfs.DiffIDs = []string{}
	}
	if err := s.runConfig(run); err != nil {
		return nil, err
	}
	platform := strings.Split(s.platform(), "/")
	set := map[string]any{"rootfs": rootfs, "config": run, "created": epoch, "os": platform[0], "architecture": platform[1]}
	if len(platform) == 3 {
		set["variant"] = platform[2]
	}
	if len(history) > 0 {
		set["history"] = history
	}
	return encode(overlay(top, set))
}

// runConfig edits what a machine does with the image. Entrypoint and Cmd follow the rule of container
// tools: a new entrypoint drops the old command, which were arguments to the old one.
func (s Spec) runConfig(run map[string]json.RawMessage) error {
	var env []string
	labels, ports := map[string]string{}, map[string]struct{}{}
	for key, into := range map[string]any{"Env": &env, "Labels": &labels, "ExposedPorts": &ports} {
		if raw, ok := run[key]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("config.%s: %w", key, err)
			}
		}
	}
	set := map[string]any{}
	if len(s.Env) > 0 {
		set["Env"] = mergeEnv(env, s.Env)
	}
	if len(s.Labels) > 0 {
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, s.Labels)
		set["Labels"] = labels
	}
	if len(s.ExposedPorts) > 0 {
		if ports == nil {
			ports = map[string]struct{}{}
		}
		for _, p := range s.ExposedPorts {
			ports[p] = struct{}{}
		}
		set["ExposedPorts"] = ports
	}
	if len(s.Entrypoint) > 0 {
		set["Entrypoint"] = s.Entrypoint
		delete(run, "Cmd")
	}
	if len(s.Cmd) > 0 {
		set["Cmd"] = s.Cmd
	}
	if s.User != "" {
		set["User"] = s.User
	}
	if s.WorkDir != "" {
		set["WorkingDir"] = s.WorkDir
	}
	for k, v := range set {
		raw, err := encode(v)
		if err != nil {
			return err
		}
		run[k] = raw
	}
	return nil
}

// mergeEnv replaces in place and appends the rest sorted.
func mergeEnv(base []string, ours map[string]string) []string {
	out := slices.Clone(base)
	for _, k := range slices.Sorted(maps.Keys(ours)) {
		i := slices.IndexFunc(out, func(kv string) bool { return strings.HasPrefix(kv, k+"=") })
		if i < 0 {
			out = append(out, k+"="+ours[k])
			continue
		}
		out[i] = k + "=" + ours[k]
	}
	return out
}

func overlay(top map[string]json.RawMessage, set map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range top {
		out[k] = v
	}
	maps.Copy(out, set)
	return out
}
