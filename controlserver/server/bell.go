//go:build linux

package server

import "sync"

// bell wakes whoever waits, all at once. Take C before looking at what the bell tells of: a ring in
// between is then seen. The zero bell works.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// C closes at the next ring.
func (b *bell) C() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
