package engine

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// AppInput is the body of a create.
type AppInput struct {
	Name, Org, Network, Role string
}

// AppView is an app with what is counted for it.
type AppView struct {
	state.App
	// Status is pending without machines, deployed while one of them is up, else suspended.
	Status string
	// Machines and Volumes count what is not destroyed.
	Machines, Volumes int
}

var (
	// Source: Fly's refusal of other names, "under 63 chars using numbers, lowercase letters and dashes".
	appName     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,61}$`)
	networkName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*$`)
)

// DefaultNetwork is the network of apps that name none.
const DefaultNetwork = "default"

// OwnOrg says whether a slug means the token's organization; "personal" does on Fly too.
func (w *World) OwnOrg(slug string) bool { return slug == w.platform.Org || slug == "personal" }

// CreateApp makes an app. Names are global: a name that any organization holds is taken.
func (w *World) CreateApp(in AppInput) (AppView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.Org != "" && !w.OwnOrg(in.Org) {
		return AppView{}, refuse(http.StatusNotFound, "organization not found")
	}
	if !appName.MatchString(in.Name) {
		return AppView{}, refuse(http.StatusUnprocessableEntity, "Validation failed: Name under 63 chars using numbers, lowercase letters and dashes")
	}
	if _, taken := w.apps[in.Name]; taken || slices.Contains(w.platform.ForeignApps, in.Name) {
		r := refuse(http.StatusUnprocessableEntity, "Validation failed: Name has already been taken")
		r.Code = "name_taken"
		return AppView{}, r
	}
	if in.Network == "" {
		in.Network = DefaultNetwork
	}
	if !networkName.MatchString(in.Network) {
		return AppView{}, refuse(http.StatusUnprocessableEntity, "Validation failed: Network may hold letters, digits and dashes and starts with a letter")
	}
	w.networkNumber(in.Network)
	a := &state.App{
		ID: "app_" + randomText(16, lower), NumericID: int32(w.number()), Name: in.Name, Org: w.platform.Org,
		Network: in.Network, Role: in.Role, CreatedAt: w.now(),
	}
	w.apps[a.Name] = a
	w.saveApp(a)
	return w.appView(a), nil
}

// App answers one app.
func (w *World) App(name string) (AppView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(name)
	if err != nil {
		return AppView{}, err
	}
	return w.appView(a), nil
}

// Apps lists the apps by name; an empty role takes all.
func (w *World) Apps(role string) []AppView {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]AppView, 0, len(w.apps))
	counts := w.countByApp()
	for _, a := range w.apps {
		if role == "" || a.Role == role {
			all = append(all, viewWith(a, counts[a.Name]))
		}
	}
	slices.SortFunc(all, func(a, b AppView) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// AppNameAvailable says whether a create with that name would not be refused as taken.
func (w *World) AppNameAvailable(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, taken := w.apps[name]
	return !taken && !slices.Contains(w.platform.ForeignApps, name)
}

// DeleteApp removes an app with everything in it, whatever state its machines are in.
func (w *World) DeleteApp(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(name)
	if err != nil {
		return err
	}
	var gone []<-chan struct{}
	for id, m := range w.machines {
		if m.App == name {
			delete(w.machines, id)
			gone = append(gone, w.vanish(m))
		}
	}
	for id, v := range w.volumes {
		if v.App == name {
			delete(w.volumes, id)
			w.removeVolume(v, gone)
		}
	}
	delete(w.apps, a.Name)
	if err := w.store.DropApp(name); err != nil {
		w.log.Error("state was not saved", "app", name, "error", err)
	}
	return nil
}

type appCount struct{ machines, running, volumes int }

// countByApp counts once for a list. Call with the lock held.
func (w *World) countByApp() map[string]appCount {
	counts := make(map[string]appCount, len(w.apps))
	for _, m := range w.machines {
		if m.State == state.Destroyed {
			continue
		}
		c := counts[m.App]
		c.machines++
		if m.State != state.Stopped && m.State != state.Suspended && m.State != state.Failed {
			c.running++
		}
		counts[m.App] = c
	}
	for _, v := range w.volumes {
		if v.State != state.VolumePendingDestroy {
			c := counts[v.App]
			c.volumes++
			counts[v.App] = c
		}
	}
	return counts
}

func (w *World) appView(a *state.App) AppView { return viewWith(a, w.countByApp()[a.Name]) }

func viewWith(a *state.App, c appCount) AppView {
	view := AppView{App: *a, Status: "deployed", Machines: c.machines, Volumes: c.volumes}
	switch {
	case c.machines == 0:
		view.Status = "pending"
	case c.running == 0:
		view.Status = "suspended"
	}
	return view
}

// number is never answered twice. A block of them is reserved on disk at a time; a restart skips the rest of it. Call with
// the lock held.
func (w *World) number() uint32 {
	if w.next >= w.platform.Next {
		w.next = w.platform.Next
		w.platform.Next += numberBlock
		w.savePlatform()
	}
	w.next++
	return w.next
}

const numberBlock = 256

// SetForeignApp reserves a name for an organization that the token cannot see, or frees it.
func (w *World) SetForeignApp(name string, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.platform.ForeignApps = slices.DeleteFunc(w.platform.ForeignApps, func(n string) bool { return n == name })
	if held {
		w.platform.ForeignApps = append(w.platform.ForeignApps, name)
	}
	w.savePlatform()
}

// AddRelease records a release of an app, or changes the one with the given id.
func (w *World) AddRelease(app string, change func(*state.Release), id string) (state.Release, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return state.Release{}, err
	}
	releases := slices.Clone(a.Releases)
	i := slices.IndexFunc(releases, func(r state.Release) bool { return r.ID == id })
	if i < 0 {
		if id != "" {
			return state.Release{}, refuse(http.StatusNotFound, "release not found")
		}
		if len(releases) >= maxReleases {
			releases = releases[1:]
		}
		version := 1
		if len(a.Releases) > 0 {
			version = a.Releases[len(a.Releases)-1].Version + 1
		}
		releases = append(releases, state.Release{ID: randomText(20, lower), Version: version, Status: "pending", CreatedAt: w.now()})
		i = len(releases) - 1
	}
	change(&releases[i])
	a.Releases = releases
	w.saveApp(a)
	return releases[i], nil
}

const maxReleases = 50

// AppName answers the name of an app that is given by its name or id; GraphQL takes both.
func (w *World) AppName(nameOrID string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.apps {
		if a.ID == nameOrID {
			return a.Name
		}
	}
	return nameOrID
}
