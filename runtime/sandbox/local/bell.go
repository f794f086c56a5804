package local

import "sync"

// bell wakes whoever waits for a change. Take C before looking at what may change.
type bell struct {
	mu sync.Mutex
	c  chan struct{}
}

func (b *bell) C() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
