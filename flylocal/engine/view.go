package engine

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// MachineView is a machine as it was at one moment. Its slices are shared and must not be changed.
type MachineView struct {
	state.Machine
	Checks []CheckView
	// Held is the lease that holds, or nil.
	Held *state.Lease
}

// CheckView is one check's last result.
type CheckView struct {
	Name, Status, Output string
	UpdatedAt            time.Time
}

// view copies a machine. Call with the lock held.
func (w *World) view(m *machine) MachineView {
	v := MachineView{Machine: m.Machine, Held: m.held()}
	for _, c := range m.checks {
		v.Checks = append(v.Checks, c.CheckView)
	}
	return v
}

// Machine answers one machine, also a destroyed one.
func (w *World) Machine(app, id string) (MachineView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.machine(app, id)
	if err != nil {
		return MachineView{}, err
	}
	return w.view(m), nil
}

// FindMachine answers a machine by its id alone.
func (w *World) FindMachine(id string) (MachineView, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.machines[id]
	if !ok || m.State == state.Destroyed {
		return MachineView{}, false
	}
	return w.view(m), true
}

// MachineFilter chooses machines of a list.
type MachineFilter struct {
	Region         string
	States         []string
	Metadata       map[string]string
	IncludeDeleted bool
}

func (f MachineFilter) takes(m *machine) bool {
	if m.State == state.Destroyed && !f.IncludeDeleted {
		return false
	}
	if f.Region != "" && m.Region != f.Region {
		return false
	}
	if len(f.States) > 0 && !slices.Contains(f.States, m.State) {
		return false
	}
	if len(f.Metadata) == 0 {
		return true
	}
	metadata := m.conf().Metadata
	for key, value := range f.Metadata {
		if got, ok := metadata[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Machines lists an app's machines, oldest first.
func (w *World) Machines(app string, filter MachineFilter) ([]MachineView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.app(app); err != nil {
		return nil, err
	}
	all := []MachineView{}
	for _, m := range w.machines {
		if m.App == app && filter.takes(m) {
			all = append(all, w.view(m))
		}
	}
	slices.SortFunc(all, func(a, b MachineView) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Page asks for a part of an organization's list.
type Page struct {
	// Limit is between 1 and 1000; zero means 500.
	Limit int
	// Cursor is what the page before answered as its next.
	Cursor string
	// UpdatedAfter leaves out what has not changed since.
	UpdatedAfter time.Time
}

const (
	defaultPage = 500
	maxPage     = 1000
)

func (p *Page) check() error {
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	if p.Limit < 1 || p.Limit > maxPage {
		return invalid("limit must be between 1 and %d", maxPage)
	}
	return nil
}

// cursor names a place in a list ordered by time of change: the row after it has a later time, or the same and a
// greater id.
func cursor(at time.Time, id string) string { return at.Format(time.RFC3339Nano) + "_" + id }

func parseCursor(text string) (at time.Time, id string, err error) {
	stamp, id, ok := strings.Cut(text, "_")
	if !ok {
		return at, "", invalid("cursor is not valid")
	}
	at, parseErr := time.Parse(time.RFC3339Nano, stamp)
	if parseErr != nil {
		return at, "", invalid("cursor is not valid")
	}
	return at, id, nil
}

// cut orders rows by time of change, drops those before the cursor and answers one page and the next cursor, which is
// empty at the end.
func cut[T any](rows []T, page Page, key func(T) (time.Time, string)) ([]T, string, error) {
	slices.SortFunc(rows, func(a, b T) int {
		at, aid := key(a)
		bt, bid := key(b)
		return cmp.Or(at.Compare(bt), cmp.Compare(aid, bid))
	})
	if page.Cursor != "" {
		after, id, err := parseCursor(page.Cursor)
		if err != nil {
			return nil, "", err
		}
		rows = slices.DeleteFunc(rows, func(row T) bool {
			at, rowID := key(row)
			return cmp.Or(at.Compare(after), cmp.Compare(rowID, id)) <= 0
		})
	}
	if len(rows) <= page.Limit {
		return rows, "", nil
	}
	rows = rows[:page.Limit]
	return rows, cursor(key(rows[len(rows)-1])), nil
}

// OrgMachines lists the organization's machines by time of change.
func (w *World) OrgMachines(org string, filter MachineFilter, page Page) ([]MachineView, string, error) {
	if !w.OwnOrg(org) {
		return nil, "", refuse(http.StatusNotFound, "organization not found")
	}
	if err := page.check(); err != nil {
		return nil, "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := []MachineView{}
	for _, m := range w.machines {
		if filter.takes(m) && m.UpdatedAt.After(page.UpdatedAfter) {
			rows = append(rows, w.view(m))
		}
	}
	return cut(rows, page, func(m MachineView) (time.Time, string) { return m.UpdatedAt, m.ID })
}

// OrgVolumes lists the organization's volumes by time of change.
func (w *World) OrgVolumes(org, region string, includeDeleted bool, page Page) ([]state.Volume, string, error) {
	if !w.OwnOrg(org) {
		return nil, "", refuse(http.StatusNotFound, "organization not found")
	}
	if err := page.check(); err != nil {
		return nil, "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := []state.Volume{}
	for _, v := range w.volumes {
		gone := v.State == state.VolumePendingDestroy && !includeDeleted
		if !gone && (region == "" || v.Region == region) && v.UpdatedAt.After(page.UpdatedAfter) {
			rows = append(rows, *v)
		}
	}
	return cut(rows, page, func(v state.Volume) (time.Time, string) { return v.UpdatedAt, v.ID })
}
