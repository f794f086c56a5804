package remote

import (
	"io"
	"sync"
	"time"
)

// progressEvery is how often progress is told at most.
const progressEvery = 250 * time.Millisecond

// progress tells now and then how many bytes went by.
type progress struct {
	mu    sync.Mutex
	tell  func(int64)
	bytes int64
	last  time.Time
}

func newProgress(tell func(int64)) *progress { return &progress{tell: tell, last: time.Now()} }

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	if p.tell != nil && time.Since(p.last) >= progressEvery {
		p.last = time.Now()
		p.tell(p.bytes)
	}
}

// end tells the last of it.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tell != nil {
		p.tell(p.bytes)
	}
}

// meteredWriter and meteredReader count what passes.
type meteredWriter struct {
	w io.Writer
	p *progress
}

func (m meteredWriter) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.p.add(n)
	return n, err
}

type meteredReader struct {
	r io.Reader
	p *progress
}

func (m meteredReader) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.p.add(n)
	return n, err
}
