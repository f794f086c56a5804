package local

import (
	"context"
	"io"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// progressEvery is the least time between two calls of Progress.
const progressEvery = 250 * time.Millisecond

// meter passes a stream on, counts it, tells of it now and then, and ends it with its context.
type meter struct {
	ctx   context.Context
	w     io.Writer
	r     io.Reader
	tell  func(int64)
	moved int64
	last  time.Time
}

func newMeter(ctx context.Context, w io.Writer, o sandbox.TreeOptions) *meter {
	return &meter{ctx: ctx, w: w, tell: o.Progress, last: time.Now()}
}

func newReadMeter(ctx context.Context, r io.Reader, o sandbox.TreeOptions) *meter {
	return &meter{ctx: ctx, r: r, tell: o.Progress, last: time.Now()}
}

func (m *meter) Write(p []byte) (int, error) {
	if err := ended(m.ctx); err != nil {
		return 0, err
	}
	n, err := m.w.Write(p)
	m.count(n)
	return n, err
}

func (m *meter) Read(p []byte) (int, error) {
	if err := ended(m.ctx); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.count(n)
	return n, err
}

func (m *meter) count(n int) {
	m.moved += int64(n)
	if m.tell != nil && time.Since(m.last) >= progressEvery {
		m.last = time.Now()
		m.tell(m.moved)
	}
}

// finish tells the whole.
func (m *meter) finish() {
	if m.tell != nil {
		m.tell(m.moved)
	}
}
