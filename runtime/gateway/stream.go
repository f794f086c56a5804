package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

var errSlow = errors.New("the client reads too slowly: ask again with the last cursor")

func (s *service) StreamEvents(ctx context.Context, r *connect.Request[runtimev1.StreamEventsRequest], out *connect.ServerStream[runtimev1.StreamEventsResponse]) error {
	caller := CallerOf(ctx)
	release, ok := s.door.limiter.stream(caller.Tenant)
	if !ok {
		tooManyStreams.retryAfter(out.ResponseHeader())
		return tooManyStreams.asError()
	}
	defer release()
	after, err := ParseCursor(r.Msg.GetCursor())
	if err != nil {
		return invalid("cursor: %w", err)
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	f, err := s.feed(ctx, caller, r.Msg.GetSessionId(), after, r.Msg.GetOutput())
	if err != nil {
		return err
	}
	defer f.Close()
	f.untilNow = r.Msg.GetUntilNow()
	for {
		events, err := s.sse.next(ctx, f)
		switch {
		case errors.Is(err, errQuiet):
			events = []*runtimev1.StreamEventsResponse{{Event: &runtimev1.StreamEventsResponse_Heartbeat{Heartbeat: &runtimev1.Heartbeat{}}}}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return s.failed(ctx, "session", err)
		case err != nil:
			return err
		}
		if err := s.send(ctx, out, events); err != nil {
			s.log.InfoContext(ctx, "stream of events ended", "tenant", caller.Tenant, "session", r.Msg.GetSessionId(), "reason", err)
			return connect.NewError(connect.CodeResourceExhausted, errSlow)
		}
	}
}

// send writes events, or fails when the client does not take them in time.
func (s *service) send(ctx context.Context, out *connect.ServerStream[runtimev1.StreamEventsResponse], events []*runtimev1.StreamEventsResponse) error {
	control := connectionOf(ctx)
	if err := control.SetWriteDeadline(time.Now().Add(s.sse.Slow)); err != nil {
		return err
	}
	for _, e := range events {
		if err := out.Send(e); err != nil {
			return err
		}
	}
	return control.SetWriteDeadline(time.Time{})
}
