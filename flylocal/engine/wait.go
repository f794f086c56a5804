package engine

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Settled is the wait's name for "any resting or final state".
const Settled = "settled"

// WaitInput is the query of a wait.
type WaitInput struct {
	// States are the wanted ones; none means started.
	States []string
	// Timeout is between one second and one minute; zero means one minute.
	Timeout time.Duration
	// Version is an instance id, or empty.
	Version string
	// FromEvent is the id of an event: only what happened after it counts.
	FromEvent string
}

// WaitResult is the answer of a wait that succeeded.
type WaitResult struct {
	State, Version, EventID string
}

var waitable = []string{state.Started, state.Stopped, state.Suspended, state.Destroyed, state.Failed, Settled}

// Wait answers when the machine is in one of the wanted states, or refuses with 408 when the time is over. It does not
// hold the lock while it waits.
func (w *World) Wait(ctx context.Context, app, id string, in WaitInput) (WaitResult, error) {
	if in.Timeout == 0 {
		in.Timeout = time.Minute
	}
	if in.Timeout < time.Second || in.Timeout > time.Minute {
		return WaitResult{}, invalid("invalid WaitMachineRequest.Timeout: value must be inside range [1s, 1m0s]")
	}
	if len(in.States) == 0 {
		in.States = []string{state.Started}
	}
	for _, s := range in.States {
		if !slices.Contains(waitable, s) {
			return WaitResult{}, invalid("invalid WaitMachineRequest.State: %q", s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, in.Timeout)
	defer cancel()
	for {
		w.mu.Lock()
		m, err := w.machine(app, id)
		if err != nil {
			w.mu.Unlock()
			return WaitResult{}, err
		}
		result, done, err := m.reached(in)
		changed := m.changed
		w.mu.Unlock()
		if done || err != nil {
			return result, err
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return WaitResult{}, notReached(in, result.State)
		case <-ctx.Done():
			return WaitResult{}, notReached(in, result.State)
		}
	}
}

func notReached(in WaitInput, current string) *Refusal {
	return refuse(http.StatusRequestTimeout, "deadline_exceeded: machine failed to reach desired state, %s, currently %s", strings.Join(in.States, ","), current)
}

// reached judges a wait now. A wait for a version that is no longer the current one ends at once: as settled when that
// is wanted, as a failure that names "replaced" otherwise. Call with the lock held.
func (m *machine) reached(in WaitInput) (WaitResult, bool, error) {
	result := WaitResult{State: m.State, Version: m.InstanceID}
	if n := len(m.Events); n > 0 {
		result.EventID = m.Events[n-1].ID
	}
	if in.Version != "" && in.Version != m.InstanceID {
		if !slices.ContainsFunc(m.Versions, func(v state.Version) bool { return v.InstanceID == in.Version }) {
			return result, false, refuse(http.StatusNotFound, "machine version not found")
		}
		result.State, result.Version = state.Replaced, in.Version
		if slices.Contains(in.States, Settled) {
			return result, true, nil
		}
		return result, false, notReached(in, state.Replaced)
	}
	if in.FromEvent != "" && result.EventID <= in.FromEvent {
		return result, false, nil
	}
	if slices.Contains(in.States, m.State) {
		return result, true, nil
	}
	return result, slices.Contains(in.States, Settled) && m.settled(), nil
}

// settled says whether the state rests. Created rests only when nothing is on its way.
func (m *machine) settled() bool {
	switch m.State {
	case state.Started, state.Stopped, state.Suspended, state.Failed, state.Destroyed:
		return true
	case state.Created:
		if m.op == nil {
			return true
		}
		select {
		case <-m.op.done:
			return true
		default:
		}
	}
	return false
}
