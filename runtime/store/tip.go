package store

import (
	"sync"
	"sync/atomic"
)

// life counts the connections that a store has made. As long as it stands still, no server was left for another: what this
// process has seen committed is there.
type life struct{ atomic.Int64 }

// tip is the last entry that a claim is known to have committed. While the session's owner has not changed, which every
// write checks, nothing comes after it but what the claim writes.
type tip struct {
	mu  sync.Mutex
	seq int64
	at  int64
}

// set notes an entry that was committed over a connection that was there when life was at.
func (t *tip) set(seq, at int64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq, t.at = seq, at
}

// is says that the entry is known to be there, for a statement over a connection that was there when life was at. After a
// connection was made since, nothing is known: a server that has crashed may have lost what was committed asynchronously, and one
// that was promoted in its place even more.
func (t *tip) is(seq, at int64) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq > 0 && t.seq == seq && t.at == at
}
