//go:build linux

package server

import (
	"runtime"
	"sync"
	"time"
)

// rush lets more of the server's goroutines run at once while a fast command writes much. One that is in a system call has a turn until
// Go's runtime takes it away for others; when it comes back, it has to get one again, and a thread has to sleep. With as many turns as
// there are processors, where these are few, that happens to most splices and writes. At other times more turns only wake threads that
// find nothing to do, which makes a start slower. The zero rush works.
type rush struct {
	mu    sync.Mutex
	usual int  // turns of other times; 0 at these
	again bool // somebody hurried since it was looked last
}

const (
	leastTurns = 4
	calmAfter  = 2 * time.Second
)

// hurry is called again and again while much is written.
func (r *rush) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = true
	if r.usual > 0 {
		return
	}
	r.usual = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(max(leastTurns, r.usual))
	time.AfterFunc(calmAfter, r.look)
}

func (r *rush) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again {
		r.again = false
		time.AfterFunc(calmAfter, r.look)
		return
	}
	runtime.GOMAXPROCS(r.usual)
	r.usual = 0
}
