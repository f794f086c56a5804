package model

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind says what a caller can do about a failure. Its text is the reason in a journal's model_aborted.
type ErrorKind string

// Kinds of failures.
const (
	// Overloaded: the provider has no room; 503, 529.
	Overloaded ErrorKind = "overloaded"
	// RateLimited: we ask too much; 429.
	RateLimited ErrorKind = "rate_limited"
	// Refused: the same request will always be refused; other 4xx, and an answer over its size limit.
	Refused ErrorKind = "refused"
	// BrokenStream: the connection failed, or what came was not a whole answer.
	BrokenStream ErrorKind = "broken_stream"
	// Timeout: the provider was silent for too long, or ctx's deadline came.
	Timeout ErrorKind = "timeout"
	// Auth: no key, or a key that is not taken; 401, 403.
	Auth ErrorKind = "auth"
	// TooLong: the request has more tokens or bytes than the model takes; compact it.
	TooLong ErrorKind = "too_long"
	// Server: the provider failed; other 5xx.
	Server ErrorKind = "server"
)

// Error is a call that has no answer. It holds no secret: no key, no header, no part of the request.
type Error struct {
	Kind     ErrorKind
	Provider string
	// Status is the HTTP status; 0 when there was none, 200 when a stream failed later.
	Status int
	// RetryAfter is how long the provider asks us to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Message is the provider's, at most MaxMessage bytes of UTF-8.
	Message string
	// RequestID is the provider's name for the call.
	RequestID string

	cause error
}

// MaxMessage bounds Error.Message.
const MaxMessage = 500

func (e *Error) Error() string {
	s := fmt.Sprintf("model call to %s failed (%s", e.Provider, e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(", HTTP %d", e.Status)
	}
	if e.RequestID != "" {
		s += ", request " + e.RequestID
	}
	s += ")"
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap gives the cause of ctx's end, when that was the failure.
func (e *Error) Unwrap() error { return e.cause }

// Because sets what Unwrap gives.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// Retryable says that the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case Overloaded, RateLimited, BrokenStream, Timeout, Server:
		return true
	case Refused, Auth, TooLong:
		return false
	}
	return false
}

// KindOf is the kind of an error of Ask; false for one that is not an *Error: the caller's own.
func KindOf(err error) (ErrorKind, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind, true
	}
	return "", false
}
