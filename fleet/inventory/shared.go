package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RepeatedError says that a shared list failed a moment ago. The caller that fetched it got the whole error; a thousand
// others need not repeat it.
type RepeatedError struct {
	// What is the list's name: "machines", "volumes", "addresses", "apps".
	What string
	// Cause is the whole error. It is not part of the text.
	Cause error
}

// Error implements error.
func (e *RepeatedError) Error() string {
	return fmt.Sprintf("the organization's list of %s failed moments ago; see the first error about it", e.What)
}

// Unwrap gives the whole error.
func (e *RepeatedError) Unwrap() error { return e.Cause }

// failureMemory is how long a failed list is not asked for again: long enough that all questions of one refresh share
// one failure, short enough that the next run asks anew.
const failureMemory = 10 * time.Second

// shared is a value that is fetched once, by the first who needs it.
type shared[T any] struct {
	what  string
	fetch func(context.Context) (T, error)

	mu       sync.Mutex
	have     bool
	value    T
	failed   error
	failedAt time.Time
	flight   chan struct{} // closed when the fetch under way ends; nil when none is
}

func newShared[T any](what string, fetch func(context.Context) (T, error)) *shared[T] {
	return &shared[T]{what: what, fetch: fetch}
}

// get gives the value. The fetch runs in the first caller's goroutine and context; when that context ends, the next who
// waits takes over, so one cancelled question fails no other.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	var none T
	for {
		s.mu.Lock()
		switch {
		case s.have:
			defer s.mu.Unlock()
			return s.value, nil
		case s.failed != nil && time.Since(s.failedAt) < failureMemory:
			defer s.mu.Unlock()
			return none, &RepeatedError{What: s.what, Cause: s.failed}
		case s.flight == nil:
			s.flight = make(chan struct{})
			s.mu.Unlock()
			return s.lead(ctx)
		}
		flight := s.flight
		s.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
}

func (s *shared[T]) lead(ctx context.Context) (T, error) {
	value, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.have, s.value, s.failed = true, value, nil
	case ctx.Err() == nil && !errors.Is(err, context.Canceled):
		s.failed, s.failedAt = err, time.Now()
	}
	close(s.flight)
	s.flight = nil
	return value, err
}
