// Package follow reads a session's events from the runtime, over as many connections as it takes: whatever cuts one, the
// next goes on at the cursor.
package follow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
)

// Client calls a runtime under an API key.
func Client(url, key string) runtimev1connect.RuntimeServiceClient {
	return runtimev1connect.NewRuntimeServiceClient(&http.Client{
		Transport: apikey.Transport{RoundTripper: http.DefaultTransport, Key: key},
	}, url)
}

// Session is what is followed.
type Session struct {
	ID string
	// Cursor is where to begin; "" is the first entry.
	Cursor string
	Output bool
	// Cut, when not nil, is told of each connection that was lost.
	Cut func(error)
}

const (
	// silence is how long a connection may say nothing; the server says something every 15 s.
	silence   = 45 * time.Second
	firstWait = 100 * time.Millisecond
	maxWait   = 3 * time.Second
)

var errSilent = errors.New("the server has said nothing for too long")

// Events calls take for each event, in order, until the session is closed and all is told, take fails, ctx ends, or the
// server refuses. Nothing durable comes twice.
func Events(ctx context.Context, client runtimev1connect.RuntimeServiceClient, s Session, take func(*runtimev1.StreamEventsResponse) error) error {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		before := s.Cursor
		err := once(ctx, client, &s, take)
		own := new(takeError)
		switch {
		case errors.As(err, &own):
			return own.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil || !passing(err):
			return err
		}
		if s.Cut != nil {
			s.Cut(err)
		}
		if s.Cursor != before {
			wait = firstWait
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// pause waits, or gives the cause of ctx's end.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }

// once reads one connection. The cursor stays the request's until an event has one (modelcontextprotocol/typescript-sdk#2499).
func once(ctx context.Context, client runtimev1connect.RuntimeServiceClient, s *Session, take func(*runtimev1.StreamEventsResponse) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	stream, err := client.StreamEvents(ctx, connect.NewRequest(&runtimev1.StreamEventsRequest{SessionId: s.ID, Cursor: s.Cursor, Output: s.Output}))
	if err != nil {
		return err
	}
	defer stream.Close() //nolint:errcheck // what it says of a cut stream was said already
	for stream.Receive() {
		watchdog.Reset(silence)
		e := stream.Msg()
		if err := take(e); err != nil {
			return &takeError{err}
		}
		if e.GetCursor() != "" {
			s.Cursor = e.GetCursor()
		}
	}
	if err := stream.Err(); err != nil {
		return fmt.Errorf("the stream of events was cut: %w", err)
	}
	return nil
}

// passing says that the same call may succeed later.
func passing(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeInvalidArgument,
		connect.CodeFailedPrecondition, connect.CodeAlreadyExists, connect.CodeUnimplemented:
		return false
	}
	return true
}

// Patiently makes a call that may be repeated until the server has answered it.
func Patiently[Answer any](ctx context.Context, call func(context.Context) (Answer, error)) (Answer, error) {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		answer, err := call(ctx)
		if err == nil || !passing(err) || connect.CodeOf(err) == connect.CodeInternal || ctx.Err() != nil {
			return answer, err
		}
		if pause(ctx, wait) != nil {
			return answer, err
		}
	}
}
