package swap

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
)

// Update writes managed paths of the machine's config by a three-way merge, over the same road as a swap: same drain,
// lease, settling, verification and gates. t.Image and t.From are not read; a change of "/image" is a swap beside
// the others. Changes of metadata alone go straight through, without a new version and without a restart.
//
// A managed path that somebody else changed since Base is a *ConflictError inside the *Error, unless t.Overwrite.
func (e *Engine) Update(ctx context.Context, t Target, changes []merge.Change) (Outcome, error) {
	ed := mergeEdit{changes: changes}
	if onlyMetadata(changes) {
		return e.run(ctx, t, metadataEdit{ed})
	}
	return e.run(ctx, t, ed)
}

// metadataEdit marks a mergeEdit that touches single metadata keys only.
type metadataEdit struct{ mergeEdit }

func onlyMetadata(changes []merge.Change) bool {
	for _, c := range changes {
		if _, ok := metadataKey(c); !ok {
			return false
		}
	}
	return len(changes) > 0
}

func metadataKey(c merge.Change) (key string, ok bool) {
	key, found := strings.CutPrefix(c.Path, "/metadata/")
	if !found || key == "" || strings.Contains(key, "/") {
		return "", false
	}
	var value string
	if len(c.Ours) > 0 && string(c.Ours) != "null" && json.Unmarshal(c.Ours, &value) != nil {
		return "", false
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(key), true
}

// metadata writes the keys under the lease.
func (s *session) metadata(ctx context.Context, m *flyapi.Machine, ed metadataEdit) *stop {
	if _, st := ed.merge(m, s.t); st != nil {
		return st
	}
	api := s.engine.api
	for _, c := range ed.changes {
		now, _, err := merge.Get(m.Config(), c.Path)
		if err == nil && merge.Equal(now, c.Ours) {
			continue
		}
		key, _ := metadataKey(c)
		var value string
		if len(c.Ours) > 0 && string(c.Ours) != "null" {
			err = json.Unmarshal(c.Ours, &value)
			if err == nil {
				err = api.SetMetadata(ctx, s.t.App, s.t.Machine, key, value)
			}
		} else {
			err = api.DeleteMetadata(ctx, s.t.App, s.t.Machine, key)
		}
		if err != nil {
			return s.trouble(ctx, err)
		}
		s.out.Written = true
	}
	after, err := api.GetMachine(ctx, s.t.App, s.t.Machine)
	if err != nil {
		return s.trouble(ctx, err)
	}
	for _, w := range ed.verify(after) {
		s.warn(w)
	}
	s.out.Status, s.out.StateAfter, s.out.InstanceID = Swapped, after.State, after.InstanceID
	return nil
}
