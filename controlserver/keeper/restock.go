//go:build linux

package keeper

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
)

// restocker has the spool make directories ahead of time, as many as starts came in the busiest time so
// far, while nothing starts.
type restocker struct {
	spool *spool.Spool
	log   *slog.Logger

	starts  atomic.Int64
	started chan struct{}
	quit    chan struct{}
	done    chan struct{}
}

const (
	// quietFor ends a busy time: nobody waits for what is done then.
	quietFor = 100 * time.Millisecond
	// leastStock is what a machine has ready on which little happens.
	leastStock = 4
)

func newRestocker(sp *spool.Spool, log *slog.Logger) *restocker {
	r := &restocker{spool: sp, log: log, started: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	r.started <- struct{}{} // the first stock
	go r.run()
	return r
}

// note is told of every start. It wakes nobody while starts come one after the other.
func (r *restocker) note() {
	r.starts.Add(1)
	select {
	case r.started <- struct{}{}:
	default:
	}
}

func (r *restocker) close() {
	close(r.quit)
	<-r.done
}

func (r *restocker) run() {
	defer close(r.done)
	most, counted := int64(leastStock), int64(0)
	for {
		select {
		case <-r.quit:
			return
		case <-r.started:
		}
		now, ok := r.quiet()
		if !ok {
			return
		}
		most, counted = max(most, now-counted), now
		if err := r.spool.Restock(int(most), func() bool { return r.starts.Load() != now }); err != nil {
			r.log.Warn("no directories are made ahead of time", "error", err)
		}
	}
}

// quiet returns the count of starts once none came for a while; false when there will be no more.
func (r *restocker) quiet() (int64, bool) {
	every := time.NewTicker(quietFor)
	defer every.Stop()
	for before := r.starts.Load(); ; {
		select {
		case <-r.quit:
			return 0, false
		case <-every.C:
		}
		now := r.starts.Load()
		if now == before {
			return now, true
		}
		before = now
	}
}
