package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// resume carries a machine on after the platform was down: what ran boots again, what was on its way goes on. A
// suspended machine stays suspended; its memory is lost, so its start is a boot. Call with the lock held.
func (w *World) resume(m *machine) {
	switch m.State {
	case state.Created:
		w.begin(m, w.bootNew)
	case state.Started:
		if w.runner.Name() == "none" {
			w.begin(m, w.reappear)
			return
		}
		w.recordExit(m, runner.Exit{At: time.Now()}, true, true)
		m.State = state.Starting
		w.touch(m)
		w.begin(m, w.bootStopped)
	case state.Starting, state.Restarting:
		w.begin(m, w.bootStopped)
	case state.Replacing:
		w.begin(m, w.replace)
	case state.Stopping:
		m.State = state.Stopped
		w.touch(m)
	case state.Suspending:
		m.State = state.Suspended
		w.touch(m)
	case state.Destroying:
		w.begin(m, w.destroy)
	case state.Destroyed:
		if len(m.Mounts) == 0 {
			return
		}
		w.begin(m, func(ctx context.Context, m *machine, _ *operation) { w.unbindLater(ctx, m) })
	}
}

// reappear gives a started machine without processes its instance back, as if the platform had never been down.
func (w *World) reappear(ctx context.Context, m *machine, op *operation) {
	pulled, err := w.pull(ctx, m)
	if err != nil {
		w.fail(ctx, m, op, err)
		return
	}
	if w.launch(ctx, m, op, pulled, false) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.startProbes(m)
	}
}

// sweep removes the files of machines and volumes that are no more: those of an app that was deleted just before the
// platform was killed, and those whose time is over. Call with the lock held.
func (w *World) sweep() error {
	var left []func(context.Context) error
	collect := func(dir string, known func(string) bool, remove func(context.Context, string) error) error {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			if !known(e.Name()) {
				path := filepath.Join(dir, e.Name())
				left = append(left, func(ctx context.Context) error { return remove(ctx, path) })
			}
		}
		return err
	}
	err := errors.Join(
		collect(w.store.MachineDir(""), func(id string) bool { return w.machines[id] != nil }, w.runner.Cleanup),
		collect(w.store.VolumeDir(""), func(id string) bool { return w.volumes[id] != nil }, w.runner.RemoveVolume),
	)
	w.wg.Go(func() {
		for _, remove := range left {
			if err := remove(w.ctx); err != nil {
				w.log.Warn("files of an earlier life remain", "error", err)
			}
		}
	})
	return err
}
