package pump

import "time"

// pace tells whether a writer is fast: by what it wrote in a while, because a pump that keeps up finds
// no more than a page in any one pass.
type pace struct {
	fast   bool
	since  time.Time // beginning of the present window
	moved  int64     // in it
	before int64     // in the window before
}

// A writer is fast that fills a pipe of the default size within one window, until a window in which it
// does not. Windows are longer than a busy machine keeps a process waiting for its turn.
const (
	paceWindow = 20 * time.Millisecond
	fastBytes  = 64 << 10
)

// A fast writer's pipe is left alone for a moment after each pass. Page by page, each pass would wake
// everybody who follows; and while one moves bytes the writer spins for the pipe, but sleeps when it
// has filled it before.
const (
	gathered   = 256 << 10
	mostGather = time.Millisecond
)

// note counts a pass of n bytes.
func (p *pace) note(now time.Time, n int64) {
	switch age := now.Sub(p.since); {
	case age > 10*paceWindow:
		p.fast, p.since, p.moved, p.before = false, now, 0, 0
	case age > paceWindow:
		p.fast, p.since, p.moved, p.before = p.moved >= fastBytes, now, 0, p.moved
	}
	p.moved += n
	p.fast = p.fast || p.moved >= fastBytes
}

// gather is how long to leave the pipe alone: as long as bytes took to come and go lately, for a quarter of
// what it holds. A writer that is faster than its readers fills it whole meanwhile.
func (p *pace) gather() time.Duration {
	if !p.fast {
		return 0
	}
	return min(paceWindow*gathered/time.Duration(max(p.moved, p.before)), mostGather)
}
