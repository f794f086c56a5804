package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// Sizes of a window: what is read ahead of the machine, and what one read takes.
const (
	mostUnaccepted = 2 * wire.MaxStdinChunk
	readPiece      = 128 << 10
)

// window holds the bytes of a source that the machine has not accepted yet, and no others.
type window struct {
	mu   sync.Mutex
	base uint64 // offset of the first byte held
	held []byte
	over error // why nothing follows what is held: io.EOF, or the source's failure

	more chan struct{} // something was read
	room chan struct{} // something was accepted
}

func newWindow() *window {
	return &window{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start says at which offset the source's first byte lies.
func (w *window) start(base uint64) { w.base = base }

// fill reads the source until its end, or until ctx ends and the read under way returns.
func (w *window) fill(ctx context.Context, source io.Reader) {
	piece := make([]byte, readPiece)
	for w.awaitRoom(ctx) {
		n, err := source.Read(piece)
		w.mu.Lock()
		w.held = append(w.held, piece[:n]...)
		w.over = err
		w.mu.Unlock()
		notify(w.more)
		if err != nil {
			return
		}
	}
}

func (w *window) awaitRoom(ctx context.Context) bool {
	for {
		w.mu.Lock()
		full := len(w.held) >= mostUnaccepted
		w.mu.Unlock()
		if !full {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-w.room:
		}
	}
}

// next waits for something to send: bytes, the end of the source, or both. A failure of the source comes
// only after all that was read before it.
func (w *window) next(ctx context.Context) (offset uint64, data []byte, eof bool, err error) {
	for {
		w.mu.Lock()
		offset, data = w.base, w.held[:min(len(w.held), wire.MaxStdinChunk)]
		last := len(data) == len(w.held)
		over := w.over
		w.mu.Unlock()
		eof = last && errors.Is(over, io.EOF)
		switch {
		case len(data) > 0 || eof:
			return offset, data, eof, nil
		case over != nil:
			return 0, nil, false, &SourceError{over}
		}
		select {
		case <-ctx.Done():
			return 0, nil, false, errUnwanted
		case <-w.more:
		}
	}
}

// accept drops what the machine has. sent is the end of what it was given: it may know more from an
// earlier client, and then what is still to be read here is repeated to it and ignored there.
func (w *window) accept(accepted, sent uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if accepted < w.base {
		return &StdinLostError{Accepted: accepted, Kept: w.base}
	}
	to := min(accepted, sent)
	w.held = w.held[to-w.base:]
	w.base = to
	notify(w.room)
	return nil
}
