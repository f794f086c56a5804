package engine

import (
	"context"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// operation is a transition in progress of one machine.
type operation struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin makes act the machine's live operation. The one before is cancelled, and act starts when it has ended. Call
// with the lock held; act runs without it.
func (w *World) begin(m *machine, act func(context.Context, *machine, *operation)) *operation {
	prev := m.op
	ctx, cancel := context.WithCancel(w.ctx)
	op := &operation{cancel: cancel, done: make(chan struct{})}
	m.op = op
	w.wg.Go(func() {
		defer close(op.done)
		defer cancel()
		if prev != nil {
			prev.cancel()
			<-prev.done
		}
		act(ctx, m, op)
	})
	return op
}

// publish applies a change and saves it, if the operation is still the machine's live one and the platform is not
// closing. It says whether it did.
func (w *World) publish(m *machine, op *operation, change func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.op != op || w.closing {
		return false
	}
	change()
	w.touch(m)
	return true
}

// boot pulls, starts and publishes as started; with failed it says what a machine that cannot boot becomes. Fresh
// boots start from the image's root.
func (w *World) boot(ctx context.Context, m *machine, op *operation, fresh bool) {
	if !w.slowBoot(ctx, m) {
		return
	}
	pulled, err := w.pull(ctx, m)
	if err != nil {
		w.fail(ctx, m, op, err)
		return
	}
	if !w.launch(ctx, m, op, pulled, fresh) {
		return
	}
	if !pause(ctx, w.settleDelay()/2) {
		return
	}
	w.publish(m, op, func() {
		if m.inst == nil || m.State == state.Started {
			return // It is down already, and its exit has been dealt with, or is about to be.
		}
		w.becomeStarted(m)
	})
}

func (w *World) becomeStarted(m *machine) {
	m.State, m.SkipLaunch, m.Revert = state.Started, false, nil
	m.startedAt = time.Now()
	w.event(m, "start", state.Started, "flyd")
	w.startProbes(m)
}

// launch starts the instance and watches it. It says whether the machine runs and the operation may go on.
func (w *World) launch(ctx context.Context, m *machine, op *operation, pulled pulledImage, fresh bool) bool {
	spec, err := w.spec(m, pulled, fresh)
	if err != nil {
		w.fail(ctx, m, op, err)
		return false
	}
	inst, err := w.runner.Start(ctx, spec)
	if err != nil {
		w.fail(ctx, m, op, err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.inst, m.frozen = inst, false
	w.watch(m, inst)
	if w.closing {
		// Close has taken its list already: what came up since has to be put down here.
		_ = inst.Kill()
		return false
	}
	return m.op == op
}

// fail ends an operation whose machine cannot boot.
func (w *World) fail(ctx context.Context, m *machine, op *operation, cause error) {
	if ctx.Err() != nil {
		return
	}
	w.log.Warn("machine cannot boot", "app", m.App, "machine", m.ID, "error", cause)
	w.publish(m, op, func() {
		m.State, m.Revert = state.Failed, nil
		w.event(m, "launch", state.Failed, "flyd")
	})
}

// slowBoot waits as long as a fault wants boots to take.
func (w *World) slowBoot(ctx context.Context, m *machine) bool {
	w.mu.Lock()
	var d time.Duration
	for _, key := range []string{"*", m.App, m.ID} {
		d = max(d, w.faults.Boot[key])
	}
	w.mu.Unlock()
	return pause(ctx, d)
}

func (w *World) settleDelay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settle()
}

// take removes the machine's instance from it, so that its end is the caller's matter and not its watcher's.
func (w *World) take(m *machine) runner.Instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	inst := m.inst
	m.inst, m.frozen = nil, false
	m.stopProbes()
	return inst
}

// halt stops the machine's instance and answers how it ended; false when there was none.
func (w *World) halt(ctx context.Context, m *machine, how stopHow) (runner.Exit, bool) {
	inst := w.take(m)
	if inst == nil {
		return runner.Exit{}, false
	}
	var err error
	if how.kill {
		err = inst.Kill()
	} else {
		err = inst.Stop(ctx, how.signal, how.timeout)
	}
	if err != nil {
		w.log.Debug("stop", "machine", m.ID, "error", err)
	}
	return inst.Wait(), true
}

type stopHow struct {
	signal  string
	timeout time.Duration
	kill    bool
}

// stopHow answers how the machine's config wants it stopped, with what the caller asked for instead.
func (m *machine) stopHow(signal string, timeout time.Duration) stopHow {
	how := stopHow{}
	how.signal, how.timeout = m.conf().Stop()
	if signal != "" {
		how.signal = signal
	}
	if timeout > 0 {
		how.timeout = timeout
	}
	return how
}

// conf reads the machine's config, which was checked when it came in.
func (m *machine) conf() *machineconf.Config {
	conf, err := machineconf.Parse(m.Config)
	if err != nil {
		return &machineconf.Config{}
	}
	return conf
}

// recordExit appends the exit event. Call with the lock held.
func (w *World) recordExit(m *machine, exit runner.Exit, requested, restarting bool) {
	if exit.At.IsZero() {
		exit.At = time.Now()
	}
	e := w.event(m, "exit", state.Stopped, "flyd")
	e.Exit = &state.Exit{
		Code: exit.Code, Signal: exit.Signal, OOMKilled: exit.OOMKilled, RequestedStop: requested,
		Restarting: restarting, At: exit.At.UTC(), RestartCount: len(m.attempts),
	}
}
