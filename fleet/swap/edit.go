package swap

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
)

// edit is what an update changes in a machine's config.
type edit interface {
	// check finds what is wrong with the edit itself.
	check() error
	// target is the image that is being swapped to, "" when the image is not touched.
	target() string
	// done reports that the machine is as wanted already.
	done(m *flyapi.Machine) bool
	// allowed finds conflicts and owners that speak against the edit.
	allowed(m *flyapi.Machine, t Target) (warning string, st *stop)
	// apply makes the config to send.
	apply(m *flyapi.Machine, t Target) (config json.RawMessage, warnings []string, st *stop)
	// image is the reference in the config that apply makes of m's.
	image(m *flyapi.Machine) string
	// verify compares what stands afterwards with what was sent.
	verify(after *flyapi.Machine) []string
}

// imageEdit sets the image and leaves every other byte.
type imageEdit struct{ to string }

func (e imageEdit) check() error {
	if e.to == "" {
		return errors.New("no image to swap to")
	}
	return nil
}

func (e imageEdit) target() string                  { return e.to }
func (e imageEdit) done(m *flyapi.Machine) bool     { return hasImage(m, e.to) }
func (e imageEdit) image(*flyapi.Machine) string    { return e.to }
func (e imageEdit) verify(*flyapi.Machine) []string { return nil }

func (e imageEdit) allowed(m *flyapi.Machine, t Target) (string, *stop) {
	if st := moved(m, t); st != nil {
		return "", st
	}
	return owned(m, t)
}

func (e imageEdit) apply(m *flyapi.Machine, _ Target) (json.RawMessage, []string, *stop) {
	config, err := merge.SetImage(m.Config(), e.to)
	if err != nil {
		return nil, nil, skip(CodeIncomplete, "%v", err).because(err)
	}
	var warnings []string
	if flyapi.DigestOf(e.to) == "" {
		warnings = append(warnings, fmt.Sprintf("image %s has no digest: which content runs cannot be verified", e.to))
	}
	return config, warnings, nil
}

// mergeEdit is a three-way merge of managed paths.
type mergeEdit struct{ changes []merge.Change }

func (e mergeEdit) check() error {
	for _, c := range e.changes {
		if _, _, err := merge.ThreeWay(json.RawMessage(`{}`), []merge.Change{c}); err != nil {
			return err
		}
	}
	return nil
}

func (e mergeEdit) ours(path string) (string, bool) {
	for _, c := range e.changes {
		var s string
		if c.Path == path && json.Unmarshal(c.Ours, &s) == nil {
			return s, true
		}
	}
	return "", false
}

func (e mergeEdit) target() string {
	image, _ := e.ours("/image")
	return image
}

func (e mergeEdit) image(m *flyapi.Machine) string {
	if image := e.target(); image != "" && !hasImage(m, image) {
		return image
	}
	return m.Image()
}

// effective leaves out an image that runs already under another spelling: respelling a digest is no change.
func (e mergeEdit) effective(m *flyapi.Machine) []merge.Change {
	var out []merge.Change
	for _, c := range e.changes {
		if image := e.target(); c.Path == "/image" && image != "" && hasImage(m, image) {
			continue
		}
		out = append(out, c)
	}
	return out
}

func (e mergeEdit) done(m *flyapi.Machine) bool {
	merged, _, err := merge.ThreeWay(m.Config(), e.effective(m))
	return err == nil && string(merged) == string(m.Config())
}

func (e mergeEdit) allowed(m *flyapi.Machine, t Target) (string, *stop) {
	if _, st := e.merge(m, t); st != nil {
		return "", st
	}
	image := e.target()
	if image == "" || hasImage(m, image) {
		return "", nil
	}
	if owner, ok := e.ours(merge.Pointer("metadata", MetadataOwner)); ok && Owner(owner) == t.As {
		return "", nil // this very change takes the ownership over
	}
	return owned(m, t)
}

func (e mergeEdit) merge(m *flyapi.Machine, t Target) (json.RawMessage, *stop) {
	merged, conflicts, err := merge.ThreeWay(m.Config(), e.effective(m))
	if err != nil {
		return nil, skip(CodeConfig, "its config cannot be edited: %v", err).because(err)
	}
	if len(conflicts) > 0 && !t.Overwrite {
		var paths []string
		for _, c := range conflicts {
			paths = append(paths, c.String())
		}
		return nil, skip(CodeConflict, "%s; plan again, or set conflict = \"overwrite\"", strings.Join(paths, ", ")).because(&ConflictError{Conflicts: conflicts})
	}
	return merged, nil
}

func (e mergeEdit) apply(m *flyapi.Machine, t Target) (json.RawMessage, []string, *stop) {
	merged, st := e.merge(m, t)
	return merged, nil, st
}

// verify names what was sent and does not stand: `fly machine update --volume` said "updated" while nothing had changed
// (flyctl#1605, #1758). It is a warning, since Fly spells some values its own way.
func (e mergeEdit) verify(after *flyapi.Machine) []string {
	var paths []string
	for _, c := range e.changes {
		now, _, err := merge.Get(after.Config(), c.Path)
		if c.Path == "/image" && hasImage(after, e.target()) {
			continue
		}
		stands := merge.Equal(now, c.Ours) || (len(c.Ours) > 0 && flyapi.ConfigCovers(now, c.Ours))
		if err != nil || !stands {
			paths = append(paths, c.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return []string{"Fly did not take over, or spells otherwise: " + strings.Join(paths, ", ")}
}

// ConflictError names the managed paths that somebody else changed.
type ConflictError struct{ Conflicts []merge.Conflict }

// Error implements error. It shows no values.
func (e *ConflictError) Error() string {
	var paths []string
	for _, c := range e.Conflicts {
		paths = append(paths, c.String())
	}
	return strings.Join(paths, ", ")
}
