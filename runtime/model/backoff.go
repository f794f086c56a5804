package model

import (
	"errors"
	"time"
)

// The policy of retries. A turn that waits holds nothing, so it can afford to wait long; what it must not
// do is ask a deterministic refusal again (PrimeIntellect-ai/prime-agent#1490).
const (
	// MaxAttempts is how often one request is sent.
	MaxAttempts = 8
	// firstWait doubles with each attempt up to longestWait: 1, 2, 4 … 60 s.
	firstWait   = time.Second
	longestWait = time.Minute
	// longestAsked: a provider that asks for more has said no.
	longestAsked = 15 * time.Minute
)

// Backoff decides what follows the failure of attempt n (from 1) of a request: wait and ask again, or give up.
// jitter in [0, 1) spreads callers that failed together over the second half of the wait; a wait that the
// provider asked for is never shortened.
func Backoff(attempt int, err error, jitter float64) (wait time.Duration, giveUp bool) {
	var e *Error
	if !errors.As(err, &e) || !e.Retryable() || attempt >= MaxAttempts || e.RetryAfter > longestAsked {
		return 0, true
	}
	wait = firstWait
	for i := 1; i < attempt && wait < longestWait; i++ {
		wait *= 2
	}
	wait = min(wait, longestWait)
	jitter = min(max(jitter, 0), 1)
	spread := time.Duration(float64(wait/2) * jitter)
	if e.RetryAfter > 0 {
		return max(e.RetryAfter, wait/2) + spread, false
	}
	return wait/2 + spread, false
}
