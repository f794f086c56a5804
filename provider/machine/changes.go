package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/mark"
)

// change is one edit of a machine's remote configuration.
type change struct {
	// Place is where, in Fly's words and with Fly's list indexes.
	Place []string
	// Ours is what shall stand there; nil removes what does.
	Ours any
}

// conflict is a value that somebody changed since Terraform read it.
type conflict struct {
	Place              string
	Base, Theirs, Ours any
}

// String shows where, and never a value of env or metadata, which may be private.
func (c conflict) String() string {
	if strings.HasPrefix(c.Place, "env.") || strings.HasPrefix(c.Place, "metadata.") {
		return c.Place
	}
	return fmt.Sprintf("%s (Terraform read %s, the machine has %s, the plan wants %s)", c.Place, show(c.Base), show(c.Theirs), show(c.Ours))
}

func show(v any) string {
	if v == nil {
		return "nothing"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "something"
	}
	if len(raw) > 80 {
		return string(raw[:80]) + "…"
	}
	return string(raw)
}

// merger compares base (what Terraform knew), ours (what the plan wants) and theirs (what the machine has).
type merger struct {
	theirs map[string]any
	// released are paths, in Terraform's words, whose disappearance from the plan removes nothing.
	released  func(path string) bool
	changes   []change
	conflicts []conflict
}

// threeWay lists what has to be written so that the machine has what ours changed against base, and what of that
// somebody else changed meanwhile. What ours and base agree on is left alone, whatever theirs says.
func threeWay(base, ours map[string]any, theirs json.RawMessage, released func(string) bool) ([]change, []conflict, error) {
	d := json.NewDecoder(bytes.NewReader(theirs))
	d.UseNumber()
	m := merger{released: released}
	if err := d.Decode(&m.theirs); err != nil {
		return nil, nil, fmt.Errorf("read the machine's configuration: %w", err)
	}
	for _, key := range union(base, ours) {
		b, o := base[key], ours[key]
		switch key {
		case "services":
			m.services(b, o)
		case "mounts":
			m.mounts(b, o)
		default:
			m.walk([]string{key}, key, b, o)
		}
	}
	return m.changes, m.conflicts, nil
}

func union(a, b map[string]any) []string {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return slices.Sorted(maps.Keys(keys))
}

// walk compares at place, which Terraform calls path. A nil value stands for none.
func (m *merger) walk(place []string, path string, base, ours any) {
	b, isB := base.(map[string]any)
	o, isO := ours.(map[string]any)
	switch {
	case base == nil && ours == nil, ours == nil && m.released(path):
	case ours == nil && isB && len(place) == 1:
		// Of env, metadata, checks and stop_config only what was declared goes: what others put beside it stays.
		m.children(place, path, b, nil)
	case isO && (isB || base == nil):
		m.children(place, path, b, o)
	case base != nil && ours != nil && sameAt(place, base, ours):
	default:
		m.decide(place, base, ours)
	}
}

func (m *merger) children(place []string, path string, base, ours map[string]any) {
	for _, key := range union(base, ours) {
		m.walk(append(slices.Clone(place), key), childPath(path, key), base[key], ours[key])
	}
}

// decide adds the change at place unless it is there already, and the conflict where theirs is neither.
func (m *merger) decide(place []string, base, ours any) {
	theirs, _ := lookup(m.theirs, place)
	if theirs == nil && ours == nil || ours != nil && covers(place, theirs, ours) {
		return
	}
	if !covers(place, theirs, base) && !takesOver(place, base) {
		m.conflicts = append(m.conflicts, conflict{Place: strings.Join(place, "."), Base: base, Theirs: theirs, Ours: ours})
	}
	m.changes = append(m.changes, change{Place: place, Ours: ours})
}

// takesOver: declaring an owner of the image that the provider had written by itself is a decision, not a conflict.
func takesOver(place []string, base any) bool {
	return base == nil && len(place) == 2 && place[0] == "metadata" && place[1] == mark.OwnerKey
}

// covers reports that theirs still says what base says; fields that base does not know are nobody's business here.
func covers(place []string, theirs, base any) bool {
	b, isB := base.(map[string]any)
	t, isT := theirs.(map[string]any)
	if isB && isT {
		for key, v := range b {
			if !covers(place, t[key], v) {
				return false
			}
		}
		return true
	}
	bl, isB := base.([]any)
	tl, isT := theirs.([]any)
	if isB && isT && len(bl) == len(tl) {
		for i := range bl {
			if !covers(place, tl[i], bl[i]) {
				return false
			}
		}
		return true
	}
	return theirs == nil && base == nil || sameAt(place, theirs, base)
}

// mounts are a list of Fly's, named by path here.
func (m *merger) mounts(base, ours any) {
	b, _ := base.(map[string]any)
	o, _ := ours.(map[string]any)
	list, _ := m.theirs["mounts"].([]any)
	for _, path := range union(b, o) {
		at := slices.IndexFunc(list, func(v any) bool {
			object, ok := v.(map[string]any)
			return ok && object["path"] == path
		})
		tfPath := fmt.Sprintf("mounts[%q]", path)
		switch {
		case b[path] == nil && at < 0:
			// Fly takes a first volume on an existing machine; the whole list is written, since it may be absent.
			m.changes = append(m.changes, change{Place: []string{"mounts"}, Ours: append(slices.Clone(list), o[path])})
		case o[path] == nil && m.released(tfPath), at < 0:
		default:
			m.walk([]string{"mounts", strconv.Itoa(at)}, tfPath, b[path], o[path])
		}
	}
}

// services are a list of Fly's. Where neither the plan nor anybody else added, removed or moved one, each is merged field by
// field; otherwise the list is written anew, on top of what the machine has for the same port.
func (m *merger) services(base, ours any) {
	b, _ := base.(map[string]any)
	o, _ := ours.(map[string]any)
	if o == nil && (b == nil || m.released("services")) {
		return
	}
	theirs, _ := m.theirs["services"].([]any)
	bs, os := indexed(b), indexed(o)
	if aligned(bs, os) && aligned(os, theirs) {
		for i := range os {
			m.walk([]string{"services", strconv.Itoa(i)}, fmt.Sprintf("services[%d]", i), bs[i], os[i])
		}
		return
	}
	if b != nil && !coveredBy(bs, theirs) {
		m.conflicts = append(m.conflicts, conflict{Place: "services", Base: bs, Theirs: theirs, Ours: os})
	}
	next := make([]any, 0, len(os))
	used := make([]bool, len(theirs))
	for _, want := range os {
		next = append(next, overlay(matching(theirs, used, want), want))
	}
	m.changes = append(m.changes, change{Place: []string{"services"}, Ours: next})
}

// aligned reports that two lists hold services for the same ports in the same order.
func aligned(a, b []any) bool {
	return slices.EqualFunc(a, b, func(x, y any) bool { return serviceKey(x) == serviceKey(y) })
}

func serviceKey(v any) string {
	object, _ := v.(map[string]any)
	protocol, _ := object["protocol"].(string)
	if protocol == "" {
		protocol = "tcp"
	}
	return fmt.Sprint(protocol, "/", object["internal_port"])
}

// coveredBy reports that theirs still holds the services of base.
func coveredBy(base, theirs []any) bool {
	if !aligned(base, theirs) {
		return false
	}
	for i := range base {
		if !covers([]string{"services"}, theirs[i], base[i]) {
			return false
		}
	}
	return true
}

func matching(theirs []any, used []bool, want any) any {
	for i, have := range theirs {
		if !used[i] && serviceKey(have) == serviceKey(want) {
			used[i] = true
			return have
		}
	}
	return nil
}

// overlay is have with the fields of want set: what nobody declared stays.
func overlay(have, want any) any {
	h, ok1 := have.(map[string]any)
	w, ok2 := want.(map[string]any)
	if !ok1 || !ok2 {
		return want
	}
	out := maps.Clone(h)
	for k, v := range w {
		out[k] = v
	}
	return out
}

func lookup(v any, place []string) (any, bool) {
	for _, step := range place {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// childPath is the path of a child in Terraform's words: keys of maps are quoted, names of attributes are not.
func childPath(path, key string) string {
	switch path {
	case "env", "metadata", "checks", "mounts":
		return fmt.Sprintf("%s[%q]", path, key)
	}
	return path + "." + key
}

// edits are changes as the swap engine takes them. Conflicts were found before, by meaning; what stands in config now is
// each one's base, so that the engine finds those that come after.
func edits(config json.RawMessage, changes []change) ([]merge.Change, error) {
	list := make([]merge.Change, 0, len(changes))
	for _, c := range changes {
		at := merge.Pointer(c.Place...)
		base, _, err := merge.Get(config, at)
		if err != nil {
			return nil, err
		}
		edit := merge.Change{Path: at, Base: base}
		if c.Ours != nil {
			if edit.Ours, err = json.Marshal(c.Ours); err != nil {
				return nil, fmt.Errorf("write %s: %w", at, err)
			}
		}
		list = append(list, edit)
	}
	return list, nil
}
