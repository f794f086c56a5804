package executor

import (
	"context"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// runAlone lets a session run that may be what kills its owners. The others are handed over first, as by a stop, so that they do
// not die with it, nor it with one of them; other replicas take them. Nothing is claimed beside it until it has ended, works
// on another submission, or has been alone for AloneTime: no session keeps a replica for as long as it likes.
func (e *Executor) runAlone(life context.Context, claim store.Claim, all *sessions) {
	others, own := all.now, newShift()
	all.now = own
	close(others.drain)
	e.alone.Store(true)
	e.options.Log.WarnContext(life, "owners died over a session again and again, it is tried alone",
		"session", claim.Session, "attempts", claim.Attempts, "handed_over", e.running.Load())
	e.start(all, own, func() {
		e.handedOver(all, others, own.drain)
		ended := make(chan struct{})
		all.run.Go(func() {
			e.untilTried(life, ended)
			e.alone.Store(false)
			all.hasRoom()
		})
		defer close(ended)
		e.run(life, claim, own.drain)
	})
}

// handedOver waits for the end of a shift, for what would become unknown in bounds.
func (e *Executor) handedOver(all *sessions, others *shift, stop <-chan struct{}) {
	over := make(chan struct{})
	all.run.Go(func() {
		others.run.Wait()
		close(over)
	})
	timer := time.NewTimer(e.options.DrainTime)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-stop:
	}
}

// untilTried waits until others may run beside a session that was to be alone.
func (e *Executor) untilTried(life context.Context, ended <-chan struct{}) {
	timer := time.NewTimer(e.options.AloneTime)
	defer timer.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for e.self.Alone() {
		select {
		case <-ended:
			return
		case <-timer.C:
			return
		case <-life.Done():
			return
		case <-tick.C:
		}
	}
}
