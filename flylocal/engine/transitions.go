package engine

import (
	"context"
	"slices"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// bootNew brings a created machine up, or to stopped when its launch was to be skipped.
func (w *World) bootNew(ctx context.Context, m *machine, op *operation) {
	if !pause(ctx, w.settleDelay()/2) {
		return
	}
	if !w.publish(m, op, func() {
		if !m.SkipLaunch {
			m.State = state.Starting
		}
	}) {
		return
	}
	if !m.SkipLaunch {
		w.boot(ctx, m, op, true)
		return
	}
	if _, err := w.pull(ctx, m); err != nil {
		w.fail(ctx, m, op, err)
		return
	}
	w.publish(m, op, func() { m.State, m.SkipLaunch = state.Stopped, false })
}

// bootStopped starts a machine from stopped or failed, or from a suspension whose memory is lost.
func (w *World) bootStopped(ctx context.Context, m *machine, op *operation) {
	if pause(ctx, w.settleDelay()/2) {
		w.boot(ctx, m, op, true)
	}
}

// unfreeze resumes a suspended machine where it was; when its processes are gone it boots.
func (w *World) unfreeze(ctx context.Context, m *machine, op *operation) {
	if !pause(ctx, w.settleDelay()/2) || !w.slowBoot(ctx, m) {
		return
	}
	w.mu.Lock()
	inst := m.inst
	w.mu.Unlock()
	if inst == nil || inst.Resume() != nil {
		w.halt(ctx, m, stopHow{kill: true})
		w.boot(ctx, m, op, true)
		return
	}
	w.publish(m, op, func() {
		m.frozen = false
		w.becomeStarted(m)
	})
}

func (w *World) stopWith(how stopHow) func(context.Context, *machine, *operation) {
	return func(ctx context.Context, m *machine, op *operation) {
		exit, ran := w.halt(ctx, m, how)
		if !pause(ctx, w.settleDelay()) {
			return
		}
		w.publish(m, op, func() {
			if ran {
				w.recordExit(m, exit, true, false)
			}
			m.State = state.Stopped
		})
	}
}

func (w *World) freeze(ctx context.Context, m *machine, op *operation) {
	w.mu.Lock()
	inst := m.inst
	m.stopProbes()
	w.mu.Unlock()
	var err error
	if inst != nil {
		err = inst.Suspend()
	}
	if err != nil || inst == nil {
		w.log.Warn("machine cannot be suspended", "machine", m.ID, "error", err)
		return // Its end is on the way; the watcher publishes it.
	}
	if !pause(ctx, w.settleDelay()) {
		return
	}
	w.publish(m, op, func() {
		m.frozen = true
		m.State = state.Suspended
		w.event(m, "suspend", state.Suspended, "flyd")
	})
}

func (w *World) restartWith(how stopHow) func(context.Context, *machine, *operation) {
	return func(ctx context.Context, m *machine, op *operation) {
		exit, ran := w.halt(ctx, m, how)
		if ran && !w.publish(m, op, func() { w.recordExit(m, exit, true, true) }) {
			return
		}
		if pause(ctx, w.settleDelay()/2) {
			w.boot(ctx, m, op, true)
		}
	}
}

// replace carries out an update: the new image is pulled first, and when that fails the old version goes on as if
// nothing had been asked. Only then the old version is stopped.
func (w *World) replace(ctx context.Context, m *machine, op *operation) {
	if !pause(ctx, w.settleDelay()/2) {
		return
	}
	pulled, err := w.pull(ctx, m)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("image cannot be pulled, the old version stays", "app", m.App, "machine", m.ID, "error", err)
			w.publish(m, op, func() { w.revert(m) })
		}
		return
	}
	w.mu.Lock()
	how, skip := m.oldStopHow(), m.SkipLaunch
	w.mu.Unlock()
	exit, ran := w.halt(ctx, m, how)
	ok := w.publish(m, op, func() {
		if ran {
			w.recordExit(m, exit, true, !skip)
		}
		w.supersede(m)
		// Clients look for a start above the newest launch; without a new launch they see the old version's exit.
		w.event(m, "launch", state.Created, "user")
		m.Image = pulled.ref
		if skip {
			m.State, m.SkipLaunch, m.Revert = state.Stopped, false, nil
			return
		}
		// From here on a machine that ends by itself is dealt with like any that does: restarted, or stopped.
		m.State = state.Starting
	})
	if !ok || skip || !w.slowBoot(ctx, m) || !w.launch(ctx, m, op, pulled, true) || !pause(ctx, w.settleDelay()/2) {
		return
	}
	w.publish(m, op, func() {
		if m.inst != nil && m.State == state.Starting {
			w.becomeStarted(m)
		}
	})
}

// supersede marks all versions but the current one. Call with the lock held.
func (w *World) supersede(m *machine) {
	versions := slices.Clone(m.Versions)
	for i := range versions {
		if versions[i].InstanceID != m.InstanceID && versions[i].Outcome == "" {
			versions[i].Outcome = state.Replaced
		}
	}
	m.Versions = versions
}

// revert puts the old version back: its config, image, instance id, state and cordon. Nothing tells but the version
// list, as on Fly (superfly/flyctl#4921: "saw the machine in the started state, the old version still running").
// Call with the lock held.
func (w *World) revert(m *machine) {
	r := m.Revert
	if r == nil {
		m.State = state.Failed
		return
	}
	versions := slices.Clone(m.Versions)
	for i := range versions {
		if versions[i].InstanceID == m.InstanceID {
			versions[i].Outcome = state.Failed
		}
	}
	for _, mount := range m.Mounts {
		if v := w.volumes[mount.VolumeID]; v != nil && !slices.Contains(r.Mounts, mount) && len(r.Mounts) == 0 {
			v.AttachedMachine = ""
			w.saveVolume(v)
		}
	}
	m.Versions, m.Revert, m.SkipLaunch = versions, nil, false
	m.Config, m.Image, m.InstanceID, m.Mounts = r.Config, r.Image, r.InstanceID, r.Mounts
	m.Cordoned, m.Secrets, m.SecretsVersion = r.Cordoned, r.Secrets, r.SecretsVersion
	m.State = r.State
	if r.State == state.Started || r.State == state.Starting {
		m.State = state.Started
		if m.inst == nil {
			// It went down meanwhile, or the platform did: the old version is booted.
			m.State = state.Starting
			w.begin(m, w.bootStopped)
		}
	}
}

// oldStopHow is how the version that is being replaced wants to be stopped.
func (m *machine) oldStopHow() stopHow {
	if m.Revert == nil {
		return m.stopHow("", 0)
	}
	old := machine{Machine: state.Machine{Config: m.Revert.Config}}
	return old.stopHow("", 0)
}

// destroy ends a machine for good. Its volume stays bound for a while after it is gone.
func (w *World) destroy(ctx context.Context, m *machine, op *operation) {
	exit, ran := w.halt(ctx, m, stopHow{kill: true})
	if !pause(ctx, w.settleDelay()) {
		return
	}
	w.cleanup(m)
	if !w.publish(m, op, func() {
		if ran {
			w.recordExit(m, exit, true, false)
		}
		m.State, m.Lease, m.Revert = state.Destroyed, nil, nil
		w.event(m, "destroy", state.Destroyed, "flyd")
	}) {
		return
	}
	w.unbindLater(ctx, m)
}

// unbindLater frees a destroyed machine's volumes after the unbind delay.
func (w *World) unbindLater(ctx context.Context, m *machine) {
	w.mu.Lock()
	delay := *w.faults.UnbindDelay
	w.mu.Unlock()
	if !pause(ctx, delay) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mount := range m.Mounts {
		if v := w.volumes[mount.VolumeID]; v != nil && v.AttachedMachine == m.ID {
			v.AttachedMachine = ""
			w.saveVolume(v)
		}
	}
}

func (w *World) cleanup(m *machine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), cleanupTimeout)
	defer cancel()
	if err := w.runner.Cleanup(ctx, w.store.MachineDir(m.ID)); err != nil {
		w.log.Warn("a machine's files remain", "machine", m.ID, "error", err)
	}
}

// vanish removes a machine with its app: the record at once, the rest as an operation. Call with the lock held.
func (w *World) vanish(m *machine) <-chan struct{} {
	m.State, m.Lease = state.Destroyed, nil
	close(m.changed)
	m.changed = make(chan struct{})
	op := w.begin(m, func(ctx context.Context, m *machine, _ *operation) {
		w.halt(ctx, m, stopHow{kill: true})
		w.cleanup(m)
	})
	if err := w.store.DropMachine(m.ID); err != nil {
		w.log.Error("state was not saved", "machine", m.ID, "error", err)
	}
	return op.done
}

// watch waits for an instance's end and deals with it, unless an operation has taken the instance. Call with the
// lock held.
func (w *World) watch(m *machine, inst runner.Instance) {
	w.wg.Go(func() {
		exit := inst.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if m.inst != inst || w.closing {
			return
		}
		m.inst, m.frozen = nil, false
		m.stopProbes()
		w.ended(m, exit)
	})
}

// ended decides what follows a machine's own exit. Call with the lock held.
func (w *World) ended(m *machine, exit runner.Exit) {
	switch m.State {
	case state.Replacing, state.Destroying, state.Stopping, state.Restarting:
		// The operation that is on its way finds no instance and goes on.
		w.recordExit(m, exit, false, false)
		w.touch(m)
		return
	}
	conf := m.conf()
	again := w.restarts(m, exit)
	w.recordExit(m, exit, false, again)
	policy, _ := conf.RestartPolicy()
	switch {
	case again:
		m.State = state.Starting
		wait := w.backoff(m)
		w.begin(m, func(ctx context.Context, m *machine, op *operation) {
			if pause(ctx, wait) {
				w.boot(ctx, m, op, false)
			}
		})
	case conf.AutoDestroy && policy == "no":
		m.State = state.Destroying
		w.event(m, "destroy", state.Destroying, "flyd")
		w.begin(m, w.destroy)
	default:
		m.State = state.Stopped
		w.begin(m, func(context.Context, *machine, *operation) {}) // A boot that is still under way is over.
	}
	w.touch(m)
}

// restartWindow is how far back tries are counted. Source: Fly's restart policy page, "10 tries in 5 minutes".
const restartWindow = 5 * time.Minute

// restarts applies the restart policy and counts the try.
func (w *World) restarts(m *machine, exit runner.Exit) bool {
	policy, tries := m.conf().RestartPolicy()
	now := time.Now()
	m.attempts = slices.DeleteFunc(m.attempts, func(t time.Time) bool { return now.Sub(t) > restartWindow })
	switch {
	case policy == "always":
	case policy == "on-failure" && exit.Code != 0 && len(m.attempts) < tries:
	default:
		return false
	}
	m.attempts = append(m.attempts, now)
	return true
}

// backoff is the time before the next try: the settle delay, doubled each time, at most ten seconds.
func (w *World) backoff(m *machine) time.Duration {
	return min(max(w.settle(), time.Millisecond)<<min(len(m.attempts)-1, 16), 10*time.Second)
}
