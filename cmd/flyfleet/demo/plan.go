package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// changed is what a plan says about one machine.
type changed struct {
	Address string
	// Lines are the attributes that differ or are not known yet, as the plan shows one line for each.
	Lines []string
	// From and To are the image before and after.
	From, To string
}

type planDocument struct {
	ResourceChanges []struct {
		Address string `json:"address"`
		Type    string `json:"type"`
		Change  struct {
			Actions      []string       `json:"actions"`
			Before       map[string]any `json:"before"`
			After        map[string]any `json:"after"`
			AfterUnknown map[string]any `json:"after_unknown"`
		} `json:"change"`
	} `json:"resource_changes"`
}

// machineChanges reads `terraform show -json` of a plan. What else the plan would do, but for a new image, is an error.
func machineChanges(doc []byte) ([]changed, error) {
	var plan planDocument
	if err := json.Unmarshal(doc, &plan); err != nil {
		return nil, fmt.Errorf("terraform show -json: %w", err)
	}
	var out []changed
	for _, r := range plan.ResourceChanges {
		actions := strings.Join(r.Change.Actions, "+")
		switch {
		case actions == "no-op", actions == "read":
		case r.Type == "flyfleet_image" && actions == "update":
		case r.Type == "flyfleet_machine" && actions == "update":
			c := changed{Address: r.Address, Lines: differing(r.Change.Before, r.Change.After, r.Change.AfterUnknown)}
			c.From, _ = r.Change.Before["image"].(string)
			c.To, _ = r.Change.After["image"].(string)
			out = append(out, c)
		default:
			return nil, fmt.Errorf("the plan would %s %s", actions, r.Address)
		}
	}
	return out, nil
}

// differing names the attributes that are not equal before and after, or not known after.
func differing(before, after, unknown map[string]any) []string {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !reflect.DeepEqual(before[k], after[k]) || anyTrue(unknown[k]) {
			out = append(out, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(unknown)) {
		if !keys[k] && anyTrue(unknown[k]) {
			out = append(out, k)
		}
	}
	return out
}

// anyTrue looks for true in the tree of after_unknown.
func anyTrue(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case map[string]any:
		for _, e := range v {
			if anyTrue(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, anyTrue)
	}
	return false
}

// onlyTheImage checks that each of n machines changes in exactly one line, its image.
func onlyTheImage(found []changed, n int) error {
	if len(found) != n {
		return fmt.Errorf("the plan changes %d machines, want %d", len(found), n)
	}
	for _, c := range found {
		if !slices.Equal(c.Lines, []string{"image"}) {
			return fmt.Errorf("the plan changes %d lines of %s, want the image alone: %s", len(c.Lines), c.Address, strings.Join(c.Lines, ", "))
		}
		if c.From == c.To || c.To == "" {
			return fmt.Errorf("the plan does not know the new image of %s", c.Address)
		}
	}
	return nil
}
