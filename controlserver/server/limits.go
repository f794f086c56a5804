//go:build linux

package server

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// defaultGrace is the time between TERM and KILL, when the spec says nothing.
const defaultGrace = 5 * time.Second

// tick is the most running time that passes between two looks at the clock. Time that a suspended
// machine slept through comes as one long tick, of which only so much counts.
const tick = time.Second

// limits keeps an exec's time limits. They belong to the machine: no client needs to live for them.
type limits struct {
	exec   *exec
	keeper keeper.Keeper
	spool  *spool.Spool
	log    *slog.Logger

	mu    sync.Mutex
	clock clock
}

// clock is what has passed, in milliseconds. It is written down every tick, so that a new server goes on
// where the old one stopped.
type clock struct {
	Ran        int64            `json:"ran_ms"`
	Unattended int64            `json:"unattended_ms,omitempty"`
	Holds      map[string]int64 `json:"holds_ms,omitempty"`
}

func newLimits(e *exec, k keeper.Keeper, sp *spool.Spool, log *slog.Logger) *limits {
	l := &limits{exec: e, keeper: k, spool: sp, log: log}
	b, err := os.ReadFile(sp.File(e.id, "clock"))
	if err == nil {
		err = json.Unmarshal(b, &l.clock)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Error("time limits begin anew", "exec", e.id, "error", err)
	}
	return l
}

// pass counts elapsed time and says which limit is over, EXITED for none, and how long to wait for the
// next look. It is the whole rule.
func (c *clock) pass(elapsed time.Duration, attended bool, wall, unattended int64) (wirev1.ExitCause, time.Duration) {
	ms := min(elapsed, tick).Milliseconds()
	held := len(c.Holds) > 0
	for key, left := range c.Holds {
		if left -= ms; left <= 0 {
			delete(c.Holds, key)
		} else {
			c.Holds[key] = left
		}
	}
	if !held {
		c.Ran += ms
	}
	c.Unattended += ms
	if attended {
		c.Unattended = 0
	}
	next := tick.Milliseconds()
	if wall > 0 {
		if c.Ran >= wall {
			return wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT, 0
		}
		next = min(next, wall-c.Ran)
	}
	if unattended > 0 {
		if c.Unattended >= unattended {
			return wirev1.ExitCause_EXIT_CAUSE_UNATTENDED, 0
		}
		next = min(next, unattended-c.Unattended)
	}
	return wirev1.ExitCause_EXIT_CAUSE_EXITED, time.Duration(next) * time.Millisecond
}

// run watches until the exec is over, or a limit is.
func (l *limits) run(over <-chan struct{}) {
	spec := l.exec.spec
	last, wait := time.Now(), time.Duration(0)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-over:
			timer.Stop()
			return
		case <-timer.C:
		}
		now := time.Now()
		l.mu.Lock()
		var cause wirev1.ExitCause
		cause, wait = l.clock.pass(now.Sub(last), l.exec.attached.Load() > 0, spec.GetWallTimeoutMs(), spec.GetUnattendedTimeoutMs())
		l.write()
		l.mu.Unlock()
		last = now
		if cause != wirev1.ExitCause_EXIT_CAUSE_EXITED {
			terminateUntil(l.exec, l.keeper, cause, l.log, over)
			return
		}
	}
}

// write puts the clock on record; a clock that is not is only late after a crash.
func (l *limits) write() {
	b, err := json.Marshal(l.clock)
	if err == nil {
		err = l.spool.WriteClock(l.exec.id, b)
	}
	if err != nil {
		l.log.Warn("clock is not on record", "exec", l.exec.id, "error", err)
	}
}

// hold pauses the wall limit under a key for so long; 0 ends that.
func (l *limits) hold(key string, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ttl <= 0 {
		delete(l.clock.Holds, key)
	} else {
		if l.clock.Holds == nil {
			l.clock.Holds = map[string]int64{}
		}
		l.clock.Holds[key] = ttl.Milliseconds()
	}
	l.write()
}

// terminate ends an exec for a cause of the machine's: TERM to its whole tree, and KILL after the grace.
func terminate(e *exec, k keeper.Keeper, cause wirev1.ExitCause, log *slog.Logger) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for e.running() {
			again := e.bell.C()
			if !e.running() {
				return
			}
			<-again
		}
	}()
	terminateUntil(e, k, cause, log, over)
}

func terminateUntil(e *exec, k keeper.Keeper, cause wirev1.ExitCause, log *slog.Logger, over <-chan struct{}) {
	grace := defaultGrace
	if ms := e.spec.GetTermGraceMs(); ms > 0 {
		grace = time.Duration(ms) * time.Millisecond
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		log.Info("exec is ended", "exec", e.id, "cause", cause.String(), "signal", signal.String())
		_, err := k.Signal(keeper.Shot{
			ID: e.id, Signal: int(signal), Target: wirev1.SignalTarget_SIGNAL_TARGET_TREE, Cause: cause,
		})
		if err != nil {
			log.Error("exec was not signalled", "exec", e.id, "error", err)
		}
		timer := time.NewTimer(grace)
		select {
		case <-over:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
