package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// Feed gives a session's events after a cursor.
type Feed interface {
	// Next waits until there are events, and gives some of them; one with a cursor is durable. io.EOF is the end of
	// the session; the end of ctx is context.Cause, and loses no event.
	Next(ctx context.Context) ([]*runtimev1.StreamEventsResponse, error)
	// Close frees what the feed holds.
	Close()
}

// OpenFeed opens the feed of a caller's session. Its errors are *connect.Error.
type OpenFeed func(ctx context.Context, caller Caller, session string, after Cursor, output bool) (Feed, error)

// SSEOptions of the stream of events. Zero fields have the defaults.
type SSEOptions struct {
	// Heartbeat is how long nothing may happen without a word. 15 s.
	Heartbeat time.Duration
	// Slow is how long a client may take to read what one call of Next gave. 20 s.
	Slow time.Duration
}

func (o SSEOptions) withDefaults() SSEOptions {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Slow <= 0 {
		o.Slow = 20 * time.Second
	}
	return o
}

// Events serves a session's events as server-sent events: GET /v1/sessions/{session}/events. The id of an event is
// the cursor after it; a client that comes back with Last-Event-ID goes on there, else at ?cursor= (or ?after=). A client that reads too
// slowly is cut: nothing is kept for it, since all is in the journal.
func (d *Door) Events(open OpenFeed, options SSEOptions) http.Handler {
	options = options.withDefaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := CallerOf(r.Context())
		release, ok := d.limiter.stream(caller.Tenant)
		if !ok {
			d.refuse(w, r, tooManyStreams)
			return
		}
		defer release()
		// The header is the browser's own word for where it was: it is newer than the address.
		text := r.Header.Get("Last-Event-ID")
		for _, name := range []string{"cursor", "after"} {
			if text == "" {
				text = r.URL.Query().Get(name)
			}
		}
		after, err := ParseCursor(text)
		if err != nil {
			writeError(w, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("cursor: %w", err)))
			return
		}
		feed, err := open(r.Context(), caller, r.PathValue("session"), after, r.URL.Query().Get("output") == "1")
		if err != nil {
			var e *connect.Error
			if !errors.As(err, &e) {
				e = connect.NewError(connect.CodeInternal, errors.New("the session cannot be read"))
				d.options.Log.Error("events", "tenant", caller.Tenant, "error", err)
			}
			writeError(w, e)
			return
		}
		defer feed.Close()
		s := &stream{w: w, control: http.NewResponseController(w), options: options}
		if err := s.run(r.Context(), feed); err != nil && r.Context().Err() == nil {
			d.options.Log.Info("stream of events ended", "tenant", caller.Tenant, "session", r.PathValue("session"), "reason", err)
		}
	})
}

// stream writes one client's events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	options SSEOptions
	buffer  bytes.Buffer
}

var errQuiet = errors.New("nothing has happened")

func (s *stream) run(ctx context.Context, feed Feed) error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	// nginx would keep events until it has enough of them.
	h.Set("X-Accel-Buffering", "no")
	s.buffer.WriteString("retry: 1000\n\n")
	if err := s.send(); err != nil {
		return err
	}
	for {
		events, err := s.options.next(ctx, feed)
		for _, e := range events {
			if err := s.put(e); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			s.buffer.WriteString("event: end\ndata: {}\n\n")
			return s.send()
		case errors.Is(err, errQuiet):
			s.buffer.WriteString(":\n\n")
		case err != nil:
			return err
		}
		if err := s.send(); err != nil {
			return fmt.Errorf("the client reads too slowly or has gone: %w", err)
		}
	}
}

// next asks the feed, at most until it is time for a heartbeat.
func (o SSEOptions) next(ctx context.Context, feed Feed) ([]*runtimev1.StreamEventsResponse, error) {
	within, cancel := context.WithTimeoutCause(ctx, o.Heartbeat, errQuiet)
	defer cancel()
	return feed.Next(within)
}

// put adds an event. One without a cursor has no id, which leaves the client where it was.
func (s *stream) put(e *runtimev1.StreamEventsResponse) error {
	data, err := protojson.Marshal(e)
	if err != nil {
		return fmt.Errorf("an event as JSON: %w", err)
	}
	if e.GetCursor() != "" {
		s.buffer.WriteString("id: " + e.GetCursor() + "\n")
	}
	// JSON on one line: no byte of it can end the event.
	s.buffer.WriteString("data: ")
	s.buffer.Write(data)
	s.buffer.WriteString("\n\n")
	return nil
}

// send writes what was put, or fails when the client does not take it in time.
func (s *stream) send() error {
	defer s.buffer.Reset()
	if err := s.control.SetWriteDeadline(time.Now().Add(s.options.Slow)); err != nil {
		return err
	}
	if _, err := s.w.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	// HTTP/2 would end the stream at the deadline though nothing is being written.
	return s.control.SetWriteDeadline(time.Time{})
}
