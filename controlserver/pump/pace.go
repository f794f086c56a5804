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

// A fast writer's pipe is left to fill for a moment when a pass found less than fullPass in it: page by
// page, each pass would wake everybody who follows.
const (
	fullPass   = 256 << 10
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

// gather is how long to leave the pipe alone after a pass of n bytes: about as long as the next fullPass
// takes to come, so that the pipe, which holds four of them, never fills meanwhile.
func (p *pace) gather(n int64) time.Duration {
	if !p.fast || n >= fullPass {
		return 0
	}
	return min(paceWindow*fullPass/time.Duration(max(p.moved, p.before)), mostGather)
}
