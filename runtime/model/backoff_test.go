package model

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffFollowsTheKind(t *testing.T) {
	// PrimeIntellect-ai/prime-agent#1490: a deterministic refusal is not asked again.
	for kind, retry := range map[ErrorKind]bool{
		Overloaded: true, RateLimited: true, BrokenStream: true, Timeout: true, Server: true,
		Refused: false, Auth: false, TooLong: false, "of another build": false,
	} {
		_, giveUp := Backoff(1, fmt.Errorf("asking: %w", &Error{Kind: kind}), 0)
		if giveUp == retry {
			t.Errorf("%s: give up = %v", kind, giveUp)
		}
	}
	for _, err := range []error{nil, errors.New("of the caller"), context.Canceled} {
		if _, giveUp := Backoff(1, err, 0); !giveUp {
			t.Errorf("%v is tried again", err)
		}
	}
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	err := &Error{Kind: Server}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60} {
		want *= time.Second
		low, _ := Backoff(i+1, err, 0)
		high, _ := Backoff(i+1, err, 0.999999)
		if low != want/2 || high <= low || high > want {
			t.Errorf("attempt %d waits %v to %v, want %v to %v", i+1, low, high, want/2, want)
		}
	}
	if _, giveUp := Backoff(MaxAttempts, err, 0); !giveUp {
		t.Error("the last attempt is followed by another")
	}
}

// A wait that the provider asked for is never shortened, and never waited out when it means no.
func TestBackoffKeepsRetryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(1, MaxAttempts-1).Draw(t, "attempt")
		asked := time.Duration(rapid.Int64Range(0, int64(longestAsked)).Draw(t, "asked"))
		jitter := rapid.Float64().Draw(t, "jitter")
		wait, giveUp := Backoff(attempt, &Error{Kind: RateLimited, RetryAfter: asked}, jitter)
		if giveUp || wait < asked || wait < firstWait/2 || wait > asked+longestWait {
			t.Fatalf("asked %v, waits %v, gives up %v", asked, wait, giveUp)
		}
	})
	if _, giveUp := Backoff(1, &Error{Kind: RateLimited, RetryAfter: longestAsked + 1}, 0); !giveUp {
		t.Error("waits for ever")
	}
}
