//go:build linux

package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// How long things are kept that nobody forgot.
const (
	retention      = 7 * 24 * time.Hour
	retentionOfOps = 24 * time.Hour
	tombsKept      = 7 * 24 * time.Hour
	cleanEvery     = time.Minute
)

// janitor keeps the spool in its bounds: what is old or forgotten leaves a tomb, operators' output goes
// first when the quota is used up, and blocks for records are set aside again.
type janitor struct {
	execs  *registry
	now    func() time.Time
	cancel context.CancelFunc
	done   chan struct{}
}

func startJanitor(ctx context.Context, r *registry, now func() time.Time) *janitor {
	ctx, cancel := context.WithCancel(ctx)
	j := &janitor{execs: r, now: now, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(j.done)
		j.count(ctx)
		every := time.NewTicker(cleanEvery)
		defer every.Stop()
		for {
			if err := j.clean(ctx); err != nil && ctx.Err() == nil {
				r.log.Error("the spool is not cleaned", "error", err)
			}
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return j
}

func (j *janitor) stop() {
	j.cancel()
	<-j.done
}

// count adds up what the execs of earlier servers take, and removes those that were buried before. Those that live count themselves from now on.
func (j *janitor) count(ctx context.Context) {
	ids, err := j.execs.spool.IDs()
	if err != nil {
		j.execs.log.Error("the spool is not measured", "error", err)
		return
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		if t, err := j.execs.graves.Find(id); err == nil && t != nil {
			// Buried by a server that died before its files were gone.
			if err := j.execs.spool.Remove(id); err != nil {
				j.execs.log.Error("exec is not collected", "exec", id, "error", err)
			}
			continue
		}
		if !j.execs.livesNow(id) {
			j.execs.vault.stored(int64(j.execs.spool.Stored(id)))
		}
	}
}

func (j *janitor) clean(ctx context.Context) error {
	if err := j.execs.spool.Reserve(); err != nil {
		j.execs.log.Warn("no room is set aside for records", "error", err)
	}
	ids, err := j.execs.spool.IDs()
	if err != nil {
		return err
	}
	room, err := j.execs.spool.Room()
	if err != nil {
		return err
	}
	for i := len(ids) - 1; i >= 0 && ctx.Err() == nil; i-- {
		made, err := wire.IDTime(ids[i])
		if err != nil {
			continue
		}
		pressed := j.execs.vault.used.Load() > int64(room.Quota)*9/10 || room.Below()
		if age := j.now().Sub(made); age < retentionOfOps && !pressed {
			break
		}
		j.consider(ids[i], pressed)
	}
	return j.execs.graves.Drop(j.now().Add(-tombsKept))
}

// consider collects an exec whose time is over.
func (j *janitor) consider(id string, pressed bool) {
	e, err := j.execs.find(id)
	if errors.Is(err, spool.ErrUnknown) {
		j.bare(id)
		return
	}
	if err != nil || e.running() || j.execs.lives(e) {
		return
	}
	if !due(e, pressed, j.now()) {
		return
	}
	j.execs.collect(id)
}

// bare collects the directory of a start that was cut short, once no retry of it can come.
func (j *janitor) bare(id string) {
	if made, err := wire.IDTime(id); err != nil || j.now().Sub(made) < maxIDAge+time.Hour || !j.execs.spool.Has(id) {
		return
	}
	j.execs.collect(id)
}

// due says whether an ended exec's output may go.
func due(e *exec, pressed bool, now time.Time) bool {
	made, err := wire.IDTime(e.id)
	if err != nil {
		return false
	}
	exit, _ := e.end()
	ended := made
	if at := exit.GetEndedAtMs(); at > 0 {
		ended = time.UnixMilli(at)
	}
	keep := retention
	if strings.HasPrefix(e.scope, "op/") {
		if pressed {
			return true
		}
		keep = retentionOfOps
	}
	return e.unwanted() || now.Sub(ended) > keep
}

func (r *registry) lives(e *exec) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[e.id] == e
}

func (r *registry) livesNow(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id] != nil
}

// collect buries an exec that is not live and removes its files. It holds the id's place meanwhile, so
// that nobody finds half of it.
func (r *registry) collect(id string) {
	place, mine := r.claim(id, "", nil)
	if !mine {
		return
	}
	defer r.abandon(place, errMoved)
	e, err := load(r.spool, id, r.keeper.Epoch())
	tomb := spool.Tomb{ID: id, Lost: &wirev1.Lost{Reason: wirev1.LostReason_LOST_REASON_KEEPER_DIED}}
	switch {
	case err == nil:
		tomb = e.tomb()
	case !errors.Is(err, spool.ErrUnknown):
		r.log.Error("exec is not collected", "exec", id, "error", err)
		return
	case !r.spool.Has(id):
		return
	}
	size := r.spool.Stored(id)
	if err := r.graves.Bury(tomb, time.Now()); err != nil {
		r.log.Error("exec is not collected", "exec", id, "error", err)
		return
	}
	crashpoint.At(crashpoint.Forget)
	if err := r.spool.Remove(id); err != nil {
		r.log.Error("exec is not collected", "exec", id, "error", err)
		return
	}
	r.vault.stored(-int64(size))
}
