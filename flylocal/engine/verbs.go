package engine

import (
	"net/http"
	"slices"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// guarded finds a machine for a verb that a lease guards: a destroyed one is gone, an unreachable one refuses, and a
// lease that another holds refuses with its holder. Call with the lock held.
func (w *World) guarded(app, id, nonce string) (*machine, error) {
	m, err := w.live(app, id)
	if err != nil {
		return nil, err
	}
	return m, w.guard(m, nonce)
}

// live finds a machine that is not destroyed and whose host can be reached.
func (w *World) live(app, id string) (*machine, error) {
	m, err := w.machine(app, id)
	if err != nil {
		return nil, err
	}
	if m.State == state.Destroyed {
		return nil, refuse(http.StatusNotFound, "machine not found")
	}
	if m.HostStatus != "ok" {
		// Assumption: Fly's answer for a verb on a machine whose host is down is not in any source.
		return nil, precondition("machine %s: host is %s", m.ID, m.HostStatus)
	}
	return m, nil
}

func wrongState(m *machine, verb string) *Refusal {
	return precondition("unable to %s machine from current state: '%s'", verb, m.State)
}

// StartMachine starts or resumes a machine and answers the state it had.
func (w *World) StartMachine(app, id, nonce string) (previous string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return "", err
	}
	previous = m.State
	switch m.State {
	case state.Started, state.Starting, state.Restarting:
		return previous, nil
	case state.Stopped, state.Failed:
		w.begin(m, w.bootStopped)
	case state.Suspended:
		w.begin(m, w.unfreeze)
	case state.Replacing:
		return "", precondition("machine getting replaced, refusing to start")
	case state.Suspending:
		return "", precondition("machine still active, refusing to start")
	default:
		return "", wrongState(m, "start")
	}
	m.State = state.Starting
	m.attempts = nil
	w.event(m, "start", state.Starting, "user")
	w.touch(m)
	return previous, nil
}

// StopMachine stops a machine; a suspended one loses its memory.
func (w *World) StopMachine(app, id, nonce, signal string, timeout time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return err
	}
	if signal != "" && !knownSignal(signal) {
		return invalid("signal %q is unknown", signal)
	}
	switch m.State {
	case state.Stopped, state.Failed, state.Stopping:
		return nil
	case state.Started, state.Starting, state.Suspended, state.Suspending, state.Restarting:
	default:
		return wrongState(m, "stop")
	}
	how := m.stopHow(signal, timeout)
	how.kill = m.State == state.Suspended
	w.event(m, "stop", state.Stopping, "user")
	m.State = state.Stopping
	w.touch(m)
	w.begin(m, w.stopWith(how))
	return nil
}

// SuspendMachine freezes a machine.
func (w *World) SuspendMachine(app, id, nonce string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return err
	}
	switch m.State {
	case state.Suspended, state.Suspending:
		return nil
	case state.Started:
	default:
		return wrongState(m, "suspend")
	}
	conf := m.conf()
	guest, err := conf.ResolvedGuest()
	switch {
	case err != nil:
		return invalid("%s", err)
	case guest.MemoryMB > 2048:
		return precondition("unable to suspend machine: more than 2048 MB of memory")
	case conf.Init.SwapSizeMB != nil && *conf.Init.SwapSizeMB > 0:
		return precondition("unable to suspend machine: it has swap")
	case conf.Schedule != "":
		return precondition("unable to suspend machine: it has a schedule")
	}
	w.event(m, "suspend", state.Suspending, "user")
	m.State = state.Suspending
	w.touch(m)
	w.begin(m, w.freeze)
	return nil
}

// RestartInput says how a restart stops the machine.
type RestartInput struct {
	ForceStop bool
	Signal    string
	Timeout   time.Duration
}

// RestartMachine stops and starts a machine; one that is down is started.
func (w *World) RestartMachine(app, id, nonce string, in RestartInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return err
	}
	if in.Signal != "" && !knownSignal(in.Signal) {
		return invalid("signal %q is unknown", in.Signal)
	}
	switch m.State {
	case state.Started, state.Starting, state.Stopped, state.Failed, state.Suspended:
	default:
		return wrongState(m, "restart")
	}
	how := m.stopHow(in.Signal, in.Timeout)
	how.kill = in.ForceStop || m.State == state.Suspended
	w.event(m, "restart", state.Restarting, "user")
	m.State = state.Restarting
	m.attempts = nil
	w.touch(m)
	w.begin(m, w.restartWith(how))
	return nil
}

// SetCordon takes a machine out of routing, or puts it back.
func (w *World) SetCordon(app, id, nonce string, cordoned bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return err
	}
	m.Cordoned = cordoned
	w.touch(m)
	return nil
}

// DestroyMachine starts a machine's end. Without force only a machine that is down may go.
func (w *World) DestroyMachine(app, id, nonce string, force bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return err
	}
	switch m.State {
	case state.Destroying:
		return nil
	case state.Stopped, state.Suspended, state.Failed, state.Created:
	default:
		if !force {
			return precondition("unable to destroy machine, not currently stopped, suspended, failed or created")
		}
	}
	w.event(m, "destroy", state.Destroying, "user")
	m.State, m.Lease = state.Destroying, nil
	w.touch(m)
	w.begin(m, w.destroy)
	return nil
}

// signals are the names that Fly takes, by number.
var signals = map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 9: "SIGKILL", 10: "SIGUSR1", 12: "SIGUSR2", 15: "SIGTERM"}

func knownSignal(name string) bool {
	for _, known := range signals {
		if known == name {
			return true
		}
	}
	return false
}

// SignalMachine sends a signal, by name or number, to a machine's process.
func (w *World) SignalMachine(app, id, name string, number int) error {
	w.mu.Lock()
	m, err := w.live(app, id)
	if err != nil {
		w.mu.Unlock()
		return err
	}
	inst := m.inst
	w.mu.Unlock()
	if name == "" {
		name = signals[number]
	}
	if !knownSignal(name) {
		return invalid("signal %q is unknown", name)
	}
	if inst == nil {
		return precondition("unable to signal machine, not currently started")
	}
	if err := inst.Signal(name); err != nil {
		return precondition("unable to signal machine: %s", err)
	}
	return nil
}

// SetHostStatus makes a machine's host look other than ok, or ok again.
func (w *World) SetHostStatus(id, status string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.machines[id]
	if !ok {
		return refuse(http.StatusNotFound, "machine not found")
	}
	if !slices.Contains([]string{"ok", "unknown", "unreachable"}, status) {
		return invalid("host status %q must be ok, unknown or unreachable", status)
	}
	m.HostStatus = status
	for _, mount := range m.Mounts {
		if v := w.volumes[mount.VolumeID]; v != nil {
			v.HostStatus = status
			w.saveVolume(v)
		}
	}
	w.touch(m)
	return nil
}

// ResetHosts makes every host reachable again.
func (w *World) ResetHosts() {
	w.mu.Lock()
	var down []string
	for id, m := range w.machines {
		if m.HostStatus != "ok" {
			down = append(down, id)
		}
	}
	w.mu.Unlock()
	for _, id := range down {
		_ = w.SetHostStatus(id, "ok") // It may be gone since.
	}
}
