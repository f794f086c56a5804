package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// sinkError marks an error of the caller's own sink.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return "taking output: " + e.err.Error() }
func (e *sinkError) Unwrap() error { return e.err }

var errSilent = errors.New("the machine said nothing for " + silence.String())

// stream opens one stream and takes its events. Nil means that the exec's end is known.
func (r *run) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()

	in := newInlet()
	events, err := r.open(in.through(ctx))
	if err != nil {
		return causeOf(ctx, err)
	}
	defer func() {
		// Closing a live stream first drains it; a cancelled one ends at once.
		cancel(nil)
		_ = events.Close()
		in.release()
	}()
	for event := in.receive(events); event != nil; event = in.receive(events) {
		watchdog.Reset(silence)
		// Any event counts, also the Started of a quiet exec: modal-labs/modal-client#4128.
		r.progress = true
		ended, err := r.take(event)
		if ended || err != nil {
			return err
		}
	}
	if err := events.Err(); err != nil {
		return causeOf(ctx, err)
	}
	return fmt.Errorf("stream ended without Exit or Lost: %w", io.ErrUnexpectedEOF)
}

// causeOf prefers the reason for which a stream was cancelled to the bare cancellation.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// open asks to start while nothing proves that the exec exists, and to attach from then on: a start
// sent to a machine that has forgotten the id would run it again.
func (r *run) open(ctx context.Context) (*connect.ServerStreamForClient[wirev1.Event], error) {
	if r.request != nil && r.result.Started == nil {
		r.request.From = r.cursor.offsets()
		return r.client.rpc.Exec(ctx, connect.NewRequest(r.request))
	}
	return r.client.rpc.Attach(ctx, connect.NewRequest(&wirev1.AttachRequest{
		ExecId: r.result.ID, Scope: r.client.options.Scope, Fence: r.client.options.Fence,
		From: r.cursor.offsets(), Follow: !r.follow.Once,
	}))
}

// take applies one event. True means that the exec's end is known and everything before it is here.
func (r *run) take(event *wirev1.Event) (bool, error) {
	switch e := event.GetEvent().(type) {
	case *wirev1.Event_Started:
		if r.result.Started != nil {
			return false, nil
		}
		r.result.Started = e.Started
		close(r.begun)
		return false, sunk(r.sink.Started(e.Started))
	case *wirev1.Event_Chunk:
		offset, data, err := r.cursor.chunk(e.Chunk)
		if err != nil || len(data) == 0 {
			return false, err
		}
		r.holes = 0
		return false, sunk(r.sink.Output(e.Chunk.GetStream(), offset, data))
	case *wirev1.Event_Gap:
		gap, err := r.cursor.gap(e.Gap)
		if err != nil || gap == nil {
			return false, err
		}
		return false, sunk(r.sink.Gap(gap))
	case *wirev1.Event_Beat:
		// Without follow a Beat ends the stream; else it is only a sign of life.
		return r.follow.Once, nil
	case *wirev1.Event_Exit:
		if err := r.cursor.complete(e.Exit); err != nil {
			return false, err
		}
		r.result.Exit = e.Exit
		return true, nil
	case *wirev1.Event_Lost:
		r.result.Lost = e.Lost
		return true, nil
	}
	// An event of a later version: a sign of life, no more.
	return false, nil
}

func sunk(err error) error {
	if err == nil {
		return nil
	}
	return &sinkError{err}
}
