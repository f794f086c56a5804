package local

import (
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// tick is the most time that counts between two looks: a computer that slept wakes to one long pause, of which
// only so much was running time.
const tick = time.Second

// limits counts a command's time.
type limits struct {
	timeout, unattended time.Duration

	mu    sync.Mutex
	ran   time.Duration
	alone time.Duration
	holds map[string]time.Duration
}

func newLimits(spec sandbox.Command) *limits {
	if spec.Timeout <= 0 && spec.Unattended <= 0 {
		return nil
	}
	return &limits{timeout: spec.Timeout, unattended: spec.Unattended, holds: map[string]time.Duration{}}
}

// run ends the command when a limit is over.
func (l *limits) run(c *command) {
	last := time.Now()
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-c.over:
			timer.Stop()
			return
		case <-timer.C:
		}
		now := time.Now()
		var cause sandbox.Cause
		cause, wait = l.pass(now.Sub(last), c.followers.Load() > 0)
		last = now
		if cause != "" {
			c.end(cause)
			return
		}
	}
}

// pass counts time and says which limit is over, or when to look again.
func (l *limits) pass(d time.Duration, attended bool) (sandbox.Cause, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d = min(d, tick)
	if len(l.holds) == 0 {
		l.ran += d
	}
	for key, left := range l.holds {
		if left -= d; left > 0 {
			l.holds[key] = left
		} else {
			delete(l.holds, key)
		}
	}
	l.alone += d
	if attended {
		l.alone = 0
	}
	next := tick
	if l.timeout > 0 {
		if l.ran >= l.timeout {
			return sandbox.CauseTimeout, 0
		}
		next = min(next, l.timeout-l.ran)
	}
	if l.unattended > 0 {
		if l.alone >= l.unattended {
			return sandbox.CauseUnattended, 0
		}
		next = min(next, l.unattended-l.alone)
	}
	return "", next
}

func (l *limits) hold(key string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d <= 0 {
		delete(l.holds, key)
	} else {
		l.holds[key] = d
	}
}
