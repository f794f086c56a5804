package local

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// window is how many accepted bytes may wait for the command to read.
const window = 1 << 20

// stdin feeds a command.
type stdin struct {
	file *os.File
	// typed: the file is a terminal, whose end is a character and which is not ours to close.
	typed bool
	bell  bell

	mu       sync.Mutex
	accepted int64
	waiting  []byte
	eof      bool
	closed   bool // nobody reads any more
}

func newStdin(w *os.File, content []byte, eof bool) *stdin {
	return &stdin{file: w, waiting: content, accepted: int64(len(content)), eof: eof}
}

func newTyped(master *os.File, content []byte, eof bool) *stdin {
	s := newStdin(master, content, eof)
	s.typed = true
	return s
}

// run feeds until the end of the input, or until nobody reads.
func (s *stdin) run() {
	defer s.close()
	for {
		again := s.bell.C()
		s.mu.Lock()
		next, eof, closed := s.waiting, s.eof, s.closed
		next = next[:min(len(next), 64<<10)]
		s.mu.Unlock()
		switch {
		case closed:
			return
		case len(next) > 0:
			n, err := s.file.Write(next)
			s.mu.Lock()
			s.waiting = s.waiting[n:]
			s.mu.Unlock()
			s.bell.ring()
			if err != nil {
				return
			}
		case eof:
			if s.typed {
				_, _ = s.file.Write([]byte{4})
			}
			return
		default:
			<-again
		}
	}
}

// close ends the feeding. Writing to what nobody reads is no error: the command had enough.
func (s *stdin) close() {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if !already && !s.typed {
		s.file.Close()
	}
	s.bell.ring()
}

// write accepts data at an offset, and waits for room.
func (s *stdin) write(ctx context.Context, offset int64, data []byte, eof bool) error {
	for {
		again := s.bell.C()
		done, err := s.accept(offset, data, eof)
		if done || err != nil {
			return err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *stdin) accept(offset int64, data []byte, eof bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.eof {
		return true, nil
	}
	if offset < 0 || offset > s.accepted {
		return false, fmt.Errorf("stdin at offset %d, of which %d bytes are there: %w", offset, s.accepted, syscall.EINVAL)
	}
	fresh := data[min(s.accepted-offset, int64(len(data))):]
	take := min(len(fresh), window-len(s.waiting))
	if take > 0 {
		s.waiting = append(s.waiting[:len(s.waiting):len(s.waiting)], fresh[:take]...)
		s.accepted += int64(take)
	}
	if take < len(fresh) {
		s.bell.ring()
		return false, nil
	}
	s.eof = eof
	s.bell.ring()
	return true, nil
}
