// Package inventory answers questions about a whole organization from a few lists, asked for once per process.
//
// A refresh of 1,000 tenants asks 3,000 questions. One GET each takes minutes under Fly's rate; the org-wide lists
// are a handful of calls. So the first question of a kind fetches the list, questions that come meanwhile wait for it,
// and later ones read it. The list of machines carries no env, mounts or services: its instance_id tells whether they can
// have changed since they were last read (each update gives a new one), and only then is a GET needed.
//
// A list may be late, and a process writes too. Both are safe: a write through the same client marks what it
// changed, and a marked or missing or different row makes the caller GET. Nothing is ever removed on a list's word.
package inventory

import (
	"context"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// Source is what an Inventory asks; *flyapi.Client is one.
type Source interface {
	Org() string
	OrgMachines(ctx context.Context) (flyapi.MachineList, error)
	ListOrgVolumes(ctx context.Context) ([]flyapi.VolumeRow, error)
	ListOrgAddresses(ctx context.Context) ([]flyapi.Address, error)
	ListApps(ctx context.Context, org string) ([]flyapi.App, error)
	OnWrite(fn func(flyapi.Write))
}

// Inventory holds the lists of one organization. Make it with New; it is safe for concurrent use.
type Inventory struct {
	machines  *shared[machines]
	volumes   *shared[map[string]flyapi.VolumeRow]
	addresses *shared[map[string][]flyapi.Address]
	apps      *shared[map[string]flyapi.App]

	mu    sync.Mutex
	dirty map[flyapi.Write]bool
}

type machines struct {
	rows         map[string]flyapi.MachineRow
	errorRegions []string
}

// New makes an empty inventory over src and listens to its writes. It makes no call.
func New(src Source) *Inventory {
	inv := &Inventory{dirty: map[flyapi.Write]bool{}}
	src.OnWrite(inv.wrote)
	inv.machines = newShared("machines", func(ctx context.Context) (machines, error) {
		list, err := src.OrgMachines(ctx)
		m := machines{rows: make(map[string]flyapi.MachineRow, len(list.Rows)), errorRegions: list.ErrorRegions}
		for _, r := range list.Rows {
			m.rows[r.ID] = r
		}
		return m, err
	})
	inv.volumes = newShared("volumes", func(ctx context.Context) (map[string]flyapi.VolumeRow, error) {
		list, err := src.ListOrgVolumes(ctx)
		m := make(map[string]flyapi.VolumeRow, len(list))
		for _, v := range list {
			m[v.ID] = v
		}
		return m, err
	})
	inv.addresses = newShared("addresses", func(ctx context.Context) (map[string][]flyapi.Address, error) {
		list, err := src.ListOrgAddresses(ctx)
		m := map[string][]flyapi.Address{}
		for _, a := range list {
			m[a.App] = append(m[a.App], a)
		}
		return m, err
	})
	inv.apps = newShared("apps", func(ctx context.Context) (map[string]flyapi.App, error) {
		list, err := src.ListApps(ctx, src.Org())
		m := make(map[string]flyapi.App, len(list))
		for _, a := range list {
			m[a.Name] = a
		}
		return m, err
	})
	return inv
}

// Machine looks a machine up in the list. fresh is true when the row's instance id is knownInstanceID, so that what the
// caller knew of the config at that version still holds (image, guest and metadata are better taken from the row, since
// metadata can change without a new version). When fresh is false the caller must GET: the row is missing,
// different, unreachable, or was written to by this process.
func (inv *Inventory) Machine(ctx context.Context, app, id, knownInstanceID string) (row flyapi.MachineRow, fresh bool, err error) {
	m, err := inv.machines.get(ctx)
	if err != nil {
		return flyapi.MachineRow{}, false, err
	}
	row, ok := m.rows[id]
	if !ok || row.App != app || inv.isDirty(flyapi.Write{Kind: flyapi.WroteMachine, App: app, ID: id}) {
		return flyapi.MachineRow{}, false, nil
	}
	known := row.HostStatus == "" || row.HostStatus == flyapi.HostOK
	return row, knownInstanceID != "" && row.InstanceID == knownInstanceID && known && !row.Gone(), nil
}

// Volume looks a volume up; ok is false when the caller must GET.
func (inv *Inventory) Volume(ctx context.Context, app, id string) (v flyapi.Volume, ok bool, err error) {
	m, err := inv.volumes.get(ctx)
	if err != nil {
		return flyapi.Volume{}, false, err
	}
	row, ok := m[id]
	if !ok || row.App != app || inv.isDirty(flyapi.Write{Kind: flyapi.WroteVolume, App: app, ID: id}) {
		return flyapi.Volume{}, false, nil
	}
	return row.Volume, true, nil
}

// Addresses gives the addresses of an app; ok is false when the caller must ask for the app's own list. An app that has
// none is not in the list and reads as not ok, too, since it may be younger than the list.
func (inv *Inventory) Addresses(ctx context.Context, app string) (list []flyapi.Address, ok bool, err error) {
	m, err := inv.addresses.get(ctx)
	if err != nil {
		return nil, false, err
	}
	list, ok = m[app]
	if !ok || inv.isDirty(flyapi.Write{Kind: flyapi.WroteAddress, App: app}) {
		return nil, false, nil
	}
	return list, true, nil
}

// App looks an app up; ok is false when the caller must GET.
func (inv *Inventory) App(ctx context.Context, name string) (app flyapi.App, ok bool, err error) {
	m, err := inv.apps.get(ctx)
	if err != nil {
		return flyapi.App{}, false, err
	}
	app, ok = m[name]
	if !ok || inv.isDirty(flyapi.Write{Kind: flyapi.WroteApp, App: name}) {
		return flyapi.App{}, false, nil
	}
	return app, true, nil
}

// maxDirty bounds the memory of writes; past it everything counts as written.
const maxDirty = 100_000

func (inv *Inventory) wrote(w flyapi.Write) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if len(inv.dirty) < maxDirty {
		inv.dirty[w] = true
	}
	if w.Kind == flyapi.WroteMachine {
		// A machine's create or destroy binds or frees volumes of the app.
		inv.dirty[flyapi.Write{Kind: flyapi.WroteVolume, App: w.App}] = true
	}
}

func (inv *Inventory) isDirty(w flyapi.Write) bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	whole := flyapi.Write{Kind: w.Kind, App: w.App} // a write without an id: any of the app's may be meant
	return inv.dirty[w] || inv.dirty[whole] || len(inv.dirty) >= maxDirty
}
