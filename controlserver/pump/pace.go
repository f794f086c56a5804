package pump

import "time"

// pace tells whether a writer is fast: by what it wrote in a while, because a pump that keeps up finds
// no more than a page in any one pass.
type pace struct {
	fast  bool
	since time.Time // beginning of the present window
	moved int64     // in it
}

// A writer is fast that fills a pipe of the default size within one window, until a window in which it
// does not. Windows are longer than a busy machine keeps a process waiting for its turn.
const (
	paceWindow = 20 * time.Millisecond
	fastBytes  = 64 << 10
)

// note counts a pass of n bytes.
func (p *pace) note(now time.Time, n int64) {
	switch age := now.Sub(p.since); {
	case age > 10*paceWindow:
		p.fast, p.since, p.moved = false, now, 0
	case age > paceWindow:
		p.fast, p.since, p.moved = p.moved >= fastBytes, now, 0
	}
	p.moved += n
	p.fast = p.fast || p.moved >= fastBytes
}
