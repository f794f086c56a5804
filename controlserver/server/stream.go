//go:build linux

package server

import (
	"context"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// maxStreamAge is how long a stream outlives its token.
const maxStreamAge = 6 * time.Hour

// streams counts what is open, so that a stopping machine can wait for it.
type streams struct {
	mu   sync.Mutex
	open int
	none bell
}

func (s *streams) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

func (s *streams) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.open == 0 {
		s.none.ring()
	}
}

// wait returns when no stream is open, or with ctx.
func (s *streams) wait(ctx context.Context) {
	for {
		again := s.none.C()
		s.mu.Lock()
		open := s.open
		s.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// stream runs a subscriber until the exec's end, the client's, a takeover of its scope, or old age.
func (s *Server) stream(ctx context.Context, fence uint64, started *wirev1.Started, sub *subscriber) error {
	s.streams.add()
	defer s.streams.done()
	sub.exec.attached.Add(1)
	defer sub.exec.attached.Add(-1)
	old := wire.Refuse(wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL, "the stream is older than %s: open it again with a fresh token", maxStreamAge)
	ctx, cancel := context.WithTimeoutCause(ctx, maxStreamAge, old)
	defer cancel()
	return sub.run(ctx, started, func() (<-chan struct{}, error) {
		return s.fences.superseded(sub.exec.scope, fence)
	})
}
