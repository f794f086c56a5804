//go:build linux

package server

import (
	"context"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// door is what a new exec passes, and the count of those that passed and still run. Closing it and
// looking at the count is one step, so nothing can start between the answer "nothing runs" and the
// end of the quiesce.
type door struct {
	now  func() time.Time
	most int // execs that may run at a time

	mu       sync.Mutex
	running  int
	until    time.Time // quiesced before this moment
	stopping bool
	idle     bell
}

// enter lets one exec in, or says why not. Every nil return is paired with one leave.
func (d *door) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return wire.Refuse(wirev1.ErrorReason_ERROR_REASON_STOPPING, "the machine is going down: ask again when it is back")
	}
	if left := d.until.Sub(d.now()); left > 0 {
		e := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_QUIESCED, "no new commands for the moment, the machine is about to be swapped: ask again")
		e.RetryAfter = min(left, time.Second)
		return e
	}
	if d.running >= d.most {
		e := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_TOO_MANY, "%d commands run on this machine already", d.running)
		e.RetryAfter = time.Second
		return e
	}
	d.running++
	return nil
}

// readmit counts an exec that was let in by the server before this one.
func (d *door) readmit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
}

// waitIdle returns true once nothing runs, false with ctx.
func (d *door) waitIdle(ctx context.Context) bool {
	for {
		again := d.idle.C()
		if _, running, _ := d.state(); running == 0 {
			return true
		}
		select {
		case <-again:
		case <-ctx.Done():
			return false
		}
	}
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	if d.running == 0 {
		d.idle.ring()
	}
}

// quiesce closes the door for a while if nothing runs, and says whether it is closed. note remembers it
// for the next server first: an answer that a crash undoes would be a lie.
func (d *door) quiesce(length time.Duration, note func(until time.Time) error) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running > 0 {
		return false, nil
	}
	if until := d.now().Add(length); until.After(d.until) {
		if err := note(until); err != nil {
			return false, err
		}
		d.until = until
	}
	return true, nil
}

func (d *door) resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = time.Time{}
}

// stop closes the door for good.
func (d *door) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
}

// state is what Hello and the probe tell; until is zero unless quiesced.
func (d *door) state() (state wirev1.MachineState, running int, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.stopping:
		return wirev1.MachineState_MACHINE_STATE_STOPPING, d.running, time.Time{}
	case d.until.After(d.now()):
		return wirev1.MachineState_MACHINE_STATE_QUIESCED, d.running, d.until
	}
	return wirev1.MachineState_MACHINE_STATE_SERVING, d.running, time.Time{}
}
