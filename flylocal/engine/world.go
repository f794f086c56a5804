// Package engine is the platform's rules: what a verb does to an app, machine or volume, what it refuses and in
// which words, and how a machine moves from state to state. It knows no HTTP; packages flaps and graph speak for it.
//
// One lock guards everything. A verb holds it while it checks, changes and saves, and starts what takes time (a
// boot, a stop) as an operation of its machine. A machine has at most one live operation: a newer one cancels the
// older and waits for its end before it acts, and only the live one may publish a state.
package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Config is what a World is made from.
type Config struct {
	Store  *state.Store
	Runner runner.Runner
	Images Images
	Log    *slog.Logger
	// Token is what clients must send; empty keeps the one of the last time, or makes one.
	Token string
	// Org is the slug of the one organization that the token sees; empty keeps the last one, or is "flylocal".
	Org string
	// Region is where machines and volumes go that name none.
	Region string
	// Settle is how long a passing state lasts at least; Unbind is how long a volume stays bound after its machine
	// is gone.
	Settle, Unbind time.Duration
}

// World is the platform's whole state. It is safe for concurrent use.
type World struct {
	store  *state.Store
	runner runner.Runner
	images Images
	log    *slog.Logger
	region string

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	closing  bool
	platform state.Platform
	apps     map[string]*state.App
	machines map[string]*machine
	volumes  map[string]*state.Volume
	clock    time.Time
	next     uint32
	faults   Faults
}

// machine is a machine and what lives only in memory.
type machine struct {
	state.Machine
	inst      runner.Instance
	frozen    bool
	op        *operation
	checks    []*check
	probes    context.CancelFunc
	changed   chan struct{}
	attempts  []time.Time
	startedAt time.Time
}

// Faults are the disturbances that tests ask for. The zero value disturbs nothing.
type Faults struct {
	// SettleDelay and UnbindDelay replace the configured ones when they are not nil.
	SettleDelay, UnbindDelay *time.Duration
	// Boot delays boots: the key is a machine's id, an app's name, or "*".
	Boot map[string]time.Duration
	// Pull makes pulls of a digest (or of a reference that holds the text) fail with the given words.
	Pull map[string]string
	// MachineQuota and VolumeQuota bound the organization when they are not nil.
	MachineQuota, VolumeQuota *int
	// NoCapacity holds regions in which no machine or volume can be placed.
	NoCapacity []string
}

// Refusal is an answer other than success, as the client shall see it.
type Refusal struct {
	// Status is the HTTP status.
	Status int
	// Text is Fly's text.
	Text string
	// Code goes into the body's "status", where Fly has one.
	Code string
	// Lease says that the body has the form of Fly's lease errors.
	Lease bool
}

func (r *Refusal) Error() string { return r.Text }

func refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Refusal {
	return refuse(http.StatusBadRequest, "invalid_argument: "+format, args...)
}

func precondition(format string, args ...any) *Refusal {
	return refuse(http.StatusPreconditionFailed, "failed_precondition: "+format, args...)
}

// Open loads the state and carries on where the last platform ended: machines that ran are booted again. ctx bounds
// the loading; Close ends the rest.
func Open(_ context.Context, cfg Config) (*World, error) {
	w := &World{
		store: cfg.Store, runner: cfg.Runner, images: cfg.Images, log: cfg.Log, region: cfg.Region,
		apps: map[string]*state.App{}, machines: map[string]*machine{}, volumes: map[string]*state.Volume{},
	}
	if w.region == "" {
		w.region = "ams"
	}
	w.faults.SettleDelay, w.faults.UnbindDelay = &cfg.Settle, &cfg.Unbind
	if err := w.load(cfg); err != nil {
		return nil, err
	}
	w.next = w.platform.Next
	// The engine's goroutines outlive the call that opened it; Close ends them.
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.machines {
		w.resume(m)
	}
	return w, w.sweep()
}

func (w *World) load(cfg Config) error {
	var err error
	if w.platform, err = w.store.LoadPlatform(); err != nil {
		return err
	}
	if cfg.Token != "" {
		w.platform.Token = cfg.Token
	}
	if w.platform.Token == "" {
		w.platform.Token = "fo1_" + rand.Text()
	}
	if cfg.Org != "" {
		w.platform.Org = cfg.Org
	}
	if w.platform.Org == "" {
		w.platform.Org = "flylocal"
	}
	apps, err := w.store.Apps()
	if err != nil {
		return err
	}
	for _, a := range apps {
		w.apps[a.Name] = a
	}
	machines, err := w.store.Machines()
	if err != nil {
		return err
	}
	for _, m := range machines {
		if m.State == state.Destroyed && time.Since(m.UpdatedAt) > tombstoneLife {
			if err := w.store.DropMachine(m.ID); err != nil {
				return err
			}
			continue
		}
		w.machines[m.ID] = &machine{Machine: *m, changed: make(chan struct{})}
	}
	volumes, err := w.store.Volumes()
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if v.State == state.VolumePendingDestroy && time.Since(v.UpdatedAt) > tombstoneLife {
			if err := w.store.DropVolume(v.ID); err != nil {
				return err
			}
			continue
		}
		w.volumes[v.ID] = v
	}
	return w.store.SavePlatform(w.platform)
}

// tombstoneLife is how long a destroyed machine can still be read by its id, and how long a destroyed volume is kept.
const tombstoneLife = 24 * time.Hour

// Token and Org are what clients need.
func (w *World) Token() string { return w.platform.Token }

// Org is the slug of the organization.
func (w *World) Org() string { return w.platform.Org }

// Close stops the machines and keeps the state: what ran will run again after the next Open. When ctx ends first,
// machines are killed.
func (w *World) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.cancel()
	type running struct {
		inst    runner.Instance
		signal  string
		timeout time.Duration
	}
	var all []running
	for _, m := range w.machines {
		if m.inst != nil {
			signal, timeout := m.conf().Stop()
			all = append(all, running{m.inst, signal, timeout})
		}
		m.stopProbes()
	}
	w.mu.Unlock()
	var stops sync.WaitGroup
	for _, r := range all {
		stops.Go(func() {
			if err := r.inst.Stop(ctx, r.signal, r.timeout); err != nil {
				w.log.Debug("stop at close", "error", err)
			}
			r.inst.Wait()
		})
	}
	stops.Wait()
	w.wg.Wait()
	return w.store.SavePlatform(w.platform)
}

// now is a time that never repeats and never goes back, so that lists ordered by it are stable. Call with the lock
// held.
func (w *World) now() time.Time {
	t := time.Now().UTC().Truncate(time.Microsecond)
	if !t.After(w.clock) {
		t = w.clock.Add(time.Microsecond)
	}
	w.clock = t
	return t
}

// touch marks a machine changed, saves it and wakes who waits for it. Call with the lock held.
func (w *World) touch(m *machine) {
	m.UpdatedAt = w.now()
	w.save(m)
}

// save writes a machine without changing its time. Call with the lock held.
func (w *World) save(m *machine) {
	close(m.changed)
	m.changed = make(chan struct{})
	if err := w.store.SaveMachine(&m.Machine); err != nil {
		w.log.Error("state was not saved", "machine", m.ID, "error", err)
	}
}

func (w *World) saveApp(a *state.App) {
	if err := w.store.SaveApp(a); err != nil {
		w.log.Error("state was not saved", "app", a.Name, "error", err)
	}
}

func (w *World) saveVolume(v *state.Volume) {
	v.UpdatedAt = w.now()
	if err := w.store.SaveVolume(v); err != nil {
		w.log.Error("state was not saved", "volume", v.ID, "error", err)
	}
}

func (w *World) savePlatform() {
	if err := w.store.SavePlatform(w.platform); err != nil {
		w.log.Error("state was not saved", "error", err)
	}
}

// app finds an app that the token may see. Call with the lock held.
func (w *World) app(name string) (*state.App, error) {
	if a, ok := w.apps[name]; ok {
		return a, nil
	}
	if slices.Contains(w.platform.ForeignApps, name) {
		return nil, refuse(http.StatusForbidden, "unauthorized")
	}
	return nil, refuse(http.StatusNotFound, "app not found")
}

// machine finds a machine of an app, also a destroyed one. Call with the lock held.
func (w *World) machine(app, id string) (*machine, error) {
	if _, err := w.app(app); err != nil {
		return nil, err
	}
	m, ok := w.machines[id]
	if !ok || m.App != app {
		return nil, refuse(http.StatusNotFound, "machine not found")
	}
	return m, nil
}

// event appends to a machine's log. Call with the lock held.
func (w *World) event(m *machine, kind, status, source string) *state.Event {
	if len(m.Events) >= maxEvents {
		m.Events = slices.Clone(m.Events[len(m.Events)-maxEvents+1:])
	}
	m.Events = append(m.Events, state.Event{ID: newULID(), Type: kind, Status: status, Source: source, Timestamp: w.now()})
	return &m.Events[len(m.Events)-1]
}

// maxEvents and maxVersions bound what one machine remembers.
const (
	maxEvents   = 50
	maxVersions = 20
)

// Disturb changes the faults under the lock.
func (w *World) Disturb(change func(*Faults)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.faults)
}

// settle is how long a passing state lasts. Call with the lock held.
func (w *World) settle() time.Duration { return *w.faults.SettleDelay }

// pause waits for d or ctx and says whether d passed.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
