// Package executor is a replica's share of the work: it claims sessions, lets a runner work on each, beats so that they
// stay its own, and hands them over when the replica is to stop.
//
//	ready sessions ─► claim ─► a goroutine each ─► settled, parked, released
//	                    ▲             │
//	                    └── room ◄────┘        a beat every 3 s covers all of them
//
// A session over which four owners have died gets the process for itself for a while: see alone.go.
package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Runner works on a claimed session until it is given up. After drain is closed it hands over as soon as it can.
type Runner interface {
	Run(ctx context.Context, claim store.Claim, drain <-chan struct{}) error
}

// Options of an Executor. Zero values are the defaults.
type Options struct {
	Store  *store.Store
	Runner Runner
	// Address and Version of the replica, for people.
	Address, Version string
	// Sessions is how many run here at once; 1000.
	Sessions int
	// BeatEvery is a fifth of the store's TTL; 3 s.
	BeatEvery time.Duration
	// SweepEvery is how often cards are looked through for expired ones; 5 s.
	SweepEvery time.Duration
	// WaitingEvery is how often a parked session is looked at that waits inside a command; 1 minute.
	WaitingEvery time.Duration
	// DrainTime bounds how long a stop, or a session that is to be alone, waits for what would become unknown; 30 s.
	DrainTime time.Duration
	// AloneTime is how long a session that is to be alone is alone at most; a minute.
	AloneTime time.Duration
	// KeepOutput is how long a command's output is kept after its end, and KeepSessions how long a session is that nothing happens
	// to. 0 is for ever. They hold for all tenants, and should be the same for all replicas.
	KeepOutput, KeepSessions time.Duration
	// Log; slog.Default().
	Log *slog.Logger
}

// Executor claims and runs sessions.
type Executor struct {
	options Options
	self    *store.Executor
	running atomic.Int64
	claimed atomic.Int64
	took    atomic.Int64
	failed  atomic.Int64
	// alone: nothing is claimed beside a session that is to be alone.
	alone atomic.Bool
}

// most is how many sessions one claim takes: another replica may have room too.
const most = 16

// New registers a replica: from now on it may own sessions.
func New(ctx context.Context, o Options) (*Executor, error) {
	if o.Store == nil || o.Runner == nil {
		return nil, errors.New("executor: it needs a store and a runner")
	}
	if o.Sessions <= 0 {
		o.Sessions = 1000
	}
	o.BeatEvery = orDefault(o.BeatEvery, 3*time.Second)
	o.SweepEvery = orDefault(o.SweepEvery, 5*time.Second)
	o.DrainTime = orDefault(o.DrainTime, 30*time.Second)
	o.WaitingEvery = orDefault(o.WaitingEvery, time.Minute)
	o.AloneTime = orDefault(o.AloneTime, time.Minute)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	self, err := o.Store.Register(ctx, o.Address, o.Version)
	if err != nil {
		return nil, fmt.Errorf("executor: %w", err)
	}
	return &Executor{options: o, self: self}, nil
}

func orDefault(v, otherwise time.Duration) time.Duration {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Status is how the replica is.
type Status struct {
	// Trusted: it has beaten lately, and may begin things.
	Trusted bool
	// Running sessions.
	Running int64
	// Claimed sessions since the start, those TakenOver from dead owners among them, and Failed runs.
	Claimed, TakenOver, Failed int64
}

// Status may be asked at any time.
func (e *Executor) Status() Status {
	return Status{
		Trusted: e.self.Trusted(), Running: e.running.Load(), Claimed: e.claimed.Load(), TakenOver: e.took.Load(), Failed: e.failed.Load(),
	}
}

var errDrained = errors.New("the replica has waited long enough for its sessions")

// Run claims and runs sessions until ctx ends. Then it claims no more, lets the runners hand over what they have, and
// returns when all have; after DrainTime it takes away what is left. Commands on machines go on in any case.
func (e *Executor) Run(ctx context.Context) error {
	// Sessions outlive ctx: its end is the wish to hand over.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	var parts sync.WaitGroup
	parts.Go(func() { e.every(life, e.options.BeatEvery, "beat", e.beat) })
	parts.Go(func() { e.every(life, e.options.SweepEvery, "expire cards", e.sweep) })
	parts.Go(func() {
		e.every(life, min(e.options.WaitingEvery, wakeEvery), "wake sessions that wait inside a command", e.wake)
	})
	parts.Go(func() { e.every(life, indexEvery, "index", e.index) })
	parts.Go(func() { e.every(life, tidyEvery, "tidy", e.options.Store.Tidy) })
	if e.options.KeepOutput > 0 || e.options.KeepSessions > 0 {
		parts.Go(func() { e.every(life, retainEvery, "delete what is old", e.retain) })
	}

	all := &sessions{room: make(chan struct{}, 1), now: newShift()}
	e.claim(ctx, life, all)
	close(all.now.drain)
	e.options.Log.InfoContext(ctx, "draining", "sessions", e.running.Load())
	over := make(chan struct{})
	parts.Go(func() { all.run.Wait(); close(over) })
	timer := time.NewTimer(e.options.DrainTime)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		e.options.Log.WarnContext(ctx, "sessions are taken away unfinished", "sessions", e.running.Load())
		end(errDrained)
		<-over
	}
	end(nil)
	parts.Wait()
	return nil
}

// sessions are those that run.
type sessions struct {
	// room says that there may be some.
	room chan struct{}
	run  sync.WaitGroup
	// now is the shift of those that are claimed.
	now *shift
}

// shift is a group of sessions that are handed over together.
type shift struct {
	// drain is closed when they are to be handed over.
	drain chan struct{}
	run   sync.WaitGroup
}

func newShift() *shift { return &shift{drain: make(chan struct{})} }

// claim takes sessions while there is room, until ctx ends.
func (e *Executor) claim(ctx, life context.Context, all *sessions) {
	look, stop := e.options.Store.Notifier().WatchReady()
	defer stop()
	for {
		select {
		case <-look:
		case <-all.room:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil && e.take(ctx, life, all) {
		}
	}
}

// take claims once. It reports whether there may be more to claim at once.
func (e *Executor) take(ctx, life context.Context, all *sessions) bool {
	free := min(e.options.Sessions-int(e.running.Load()), most)
	if free <= 0 || e.alone.Load() || !e.self.Trusted() {
		return false
	}
	// A claim whose answer is lost is one that nobody works on until this process ends: it is not cut off by the wish
	// to stop.
	claims, err := e.options.Store.Claim(life, e.self, free)
	if err != nil {
		e.options.Log.WarnContext(ctx, "no session can be claimed", "error", err)
		return false
	}
	for _, claim := range claims {
		e.claimed.Add(1)
		if claim.TookOver {
			e.took.Add(1)
		}
		if claim.Alone() {
			e.runAlone(life, claim, all)
		} else {
			shift := all.now
			e.start(all, shift, func() { e.run(life, claim, shift.drain) })
		}
	}
	return len(claims) >= free
}

// start lets a session of a shift run.
func (e *Executor) start(all *sessions, shift *shift, run func()) {
	e.running.Add(1)
	shift.run.Add(1)
	all.run.Go(func() {
		defer func() {
			e.running.Add(-1)
			shift.run.Done()
			all.hasRoom()
		}()
		run()
	})
}

func (s *sessions) hasRoom() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

func (e *Executor) run(ctx context.Context, claim store.Claim, drain <-chan struct{}) {
	log := e.options.Log.With("session", claim.Session, "fence", claim.Fence)
	log.InfoContext(ctx, "session claimed", "took_over", claim.TookOver, "attempts", claim.Attempts)
	err := e.options.Runner.Run(ctx, claim, drain)
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFenced):
		log.WarnContext(ctx, "session lost to another owner", "error", err)
	default:
		e.failed.Add(1)
		log.ErrorContext(ctx, "a turn failed", "error", err)
	}
}

func (e *Executor) beat(ctx context.Context) error { return e.options.Store.Beat(ctx, e.self) }

func (e *Executor) sweep(ctx context.Context) error {
	for {
		closed, err := e.options.Store.ExpireApprovals(ctx, mostExpired)
		if err != nil || closed < mostExpired {
			return err
		}
	}
}

// wake lets sessions that wait inside a command be looked at again.
func (e *Executor) wake(ctx context.Context) error {
	for {
		woken, err := e.options.Store.WakeWaiting(ctx, e.options.WaitingEvery, mostWoken)
		if err != nil || woken < mostWoken {
			return err
		}
	}
}

const (
	// wakeEvery is how often it is asked whose time it is.
	wakeEvery = 10 * time.Second
	mostWoken = 100
)

// What keeps the database searchable and small; any replica may do it.
const (
	indexEvery = time.Second
	tidyEvery  = time.Minute
	// mostIndexed is how many sessions are indexed at a time.
	mostIndexed = 100
)

func (e *Executor) index(ctx context.Context) error {
	_, err := e.options.Store.Index(ctx, mostIndexed)
	return err
}

// mostExpired is how many cards one statement closes.
const mostExpired = 100

// every does something at once and then again and again, until ctx ends. A failure is told and tried again.
func (e *Executor) every(ctx context.Context, period time.Duration, what string, work func(context.Context) error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, max(period, 5*time.Second))
		err := work(bounded)
		cancel()
		if err != nil && ctx.Err() == nil {
			e.options.Log.WarnContext(ctx, what, "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
