package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// StdinLostError says that the machine lost stdin which it had accepted, and which this client therefore
// no longer keeps. The command has not had it and never will.
type StdinLostError struct {
	// Accepted is how far the machine's stdin reaches now, Kept the first byte that the client still has.
	Accepted, Kept uint64
}

func (e *StdinLostError) Error() string {
	return fmt.Sprintf("the machine lost stdin: it has the bytes below %d, and those below %d were accepted and are gone here", e.Accepted, e.Kept)
}

// SourceError marks a failure of the caller's own stdin. The command was not told an end of file.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return "reading stdin: " + e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// Pace of a feeder.
const (
	firstStdinPause = 5 * time.Millisecond
	mostStdinPause  = 500 * time.Millisecond
)

// feeder sends a source to an exec's stdin: by offset, so that a call whose answer was lost is repeated
// as it was. It never gives up on a broken transport: that is the output stream's to judge.
type feeder struct {
	client *Client
	id     string
	window *window
	renew  bool // a fresh token was asked for since the last accepted call
}

// errUnwanted says that nobody is there to be fed any more.
var errUnwanted = errors.New("stdin is no longer wanted")

// feed starts sending once begun is closed. The function returned ends it and says what went wrong, after
// abort was told the same.
func (r *run) feed(ctx context.Context, abort context.CancelCauseFunc) (end func() error) {
	if r.follow.Stdin == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feeder{client: r.client, id: r.result.ID, window: newWindow()}
	failed := make(chan error, 1)
	go func() {
		err := f.run(ctx, r.begun, r.follow.Stdin, r.request == nil)
		if errors.Is(err, errUnwanted) {
			err = nil
		}
		if err != nil {
			abort(err)
		}
		failed <- err
	}()
	return func() error {
		cancel()
		return <-failed
	}
}

func (f *feeder) run(ctx context.Context, begun <-chan struct{}, source io.Reader, resume bool) error {
	select {
	case <-ctx.Done():
		return errUnwanted
	case <-begun:
	}
	if resume {
		// Another client fed this exec before: go on where its stdin ends.
		at, err := f.accepted(ctx)
		if err != nil {
			return err
		}
		f.window.start(at)
	}
	go f.window.fill(ctx, source)
	return f.send(ctx)
}

// send sends until everything is accepted, or nobody wants more.
func (f *feeder) send(ctx context.Context) error {
	pause := firstStdinPause
	for {
		offset, data, eof, err := f.window.next(ctx)
		if err != nil {
			return err
		}
		accepted, err := f.write(ctx, offset, data, eof)
		if err != nil {
			return err
		}
		if err := f.window.accept(accepted, offset+uint64(len(data))); err != nil {
			return err
		}
		if accepted >= offset+uint64(len(data)) {
			if eof {
				return nil
			}
			pause = firstStdinPause
			continue
		}
		if accepted > offset {
			pause = firstStdinPause
		}
		// The command reads slowly.
		if sleep(ctx, pause) != nil {
			return errUnwanted
		}
		pause = min(pause*2, mostStdinPause)
	}
}

// accepted asks how far the exec's stdin reaches: a write of nothing at the beginning changes nothing.
func (f *feeder) accepted(ctx context.Context) (uint64, error) { return f.write(ctx, 0, nil, false) }

// write repeats one WriteStdin until the machine has answered it. It returns errUnwanted when ctx ended,
// and when the exec or its stdin is no longer there.
func (f *feeder) write(ctx context.Context, offset uint64, data []byte, eof bool) (accepted uint64, err error) {
	for pause := firstBackoff; ; pause = min(pause*2, mostBackoff) {
		accepted, closed, err := f.client.WriteStdin(ctx, f.id, offset, data, eof)
		switch {
		case err == nil && closed && (!eof || accepted < offset+uint64(len(data))):
			return 0, errUnwanted
		case err == nil:
			f.renew = false
			return accepted, nil
		case ctx.Err() != nil:
			return 0, errUnwanted
		case hole(err) && offset > 0:
			return f.accepted(ctx)
		}
		if err := f.judge(err); err != nil {
			return 0, err
		}
		if sleep(ctx, pause) != nil {
			return 0, errUnwanted
		}
	}
}

// hole says whether a machine refused an offset beyond what it has: it lost something.
func hole(err error) bool {
	refusal, refused := wire.AsError(err)
	return refused && refusal.Reason == wirev1.ErrorReason_ERROR_REASON_INVALID && refusal.Field == "offset"
}

// judge returns the error that a failed call ends the feeding with, nil when it is worth repeating.
func (f *feeder) judge(err error) error {
	var source *tokenError
	if errors.As(err, &source) {
		return err
	}
	refusal, refused := wire.AsError(err)
	if !refused {
		if permanent(err) {
			return err
		}
		return nil
	}
	switch refusal.Reason {
	case wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:
		// It had started, so it ended and was collected; the output stream tells how.
		return errUnwanted
	case wirev1.ErrorReason_ERROR_REASON_TOKEN, wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL:
		renewer, ok := f.client.options.Tokens.(Renewer)
		if !ok || f.renew {
			return err
		}
		renewer.Renew()
		f.renew = true
		return nil
	}
	if refusal.Retryable {
		return nil
	}
	return err
}
