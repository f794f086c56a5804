package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Command is what Run starts, or attaches to when the id is known with the same digest.
type Command struct {
	// ID names the exec; empty makes a fresh one. Who may have to run the same intent again, records
	// the id before the first call.
	ID   string
	Spec *wirev1.ExecSpec
	// IfEpoch is the epoch recorded with the intent: on a restarted machine an unknown id is then
	// Lost and never started.
	IfEpoch string
	Follow
}

// Follow says how patiently output is followed.
type Follow struct {
	// From is where the caller's copy of the output ends; nil is the beginning.
	From *wirev1.Offsets
	// Wait is how long a retryable refusal (a swap under way, a stopping or full machine) is waited
	// for in total; 0 returns it at once.
	Wait time.Duration
	// Patience is how long a broken transport is retried without any progress; 0 means 30 s. Any
	// event from the machine, a beat too, starts the count again.
	Patience time.Duration
	// Once takes what the machine has now and returns; Exit and Lost are then both nil while the exec
	// runs. It is for Attach: a Run that has to start the exec follows it.
	Once bool
	// Stdin is sent to an exec whose spec says STDIN_MODE_PIPE, and its end as the end of file. A Run
	// sends it from offset 0, an Attach from where the exec's stdin ends. At most 2 MiB that the machine
	// has not accepted are kept. Stdin is read by a goroutine of its own, which Run cannot interrupt:
	// when Run returns it may still be inside one Read, whose bytes are dropped; close the source to
	// end it.
	Stdin io.Reader
	// TermOnCancel sends TERM, or CancelSignal, to the exec's process group when ctx ends or Stdin
	// fails, and follows for 5 s more; and when the sink takes no more, which ends the run at once.
	// Otherwise the exec runs on.
	TermOnCancel bool
	CancelSignal int32
}

// Result is what is known of an exec. With a nil error of Run or Attach exactly one of Exit and Lost is
// set, but for Once.
type Result struct {
	ID      string
	Started *wirev1.Started
	Exit    *wirev1.Exit
	Lost    *wirev1.Lost
	// Gaps are the bytes that the machine did not keep.
	Gaps []*wirev1.Gap
	// Offsets are where the output seen so far ends, for a later Attach.
	Offsets *wirev1.Offsets
	// Reattached counts the streams opened after the first.
	Reattached int
}

// ErrGaveUp wraps the last transport failure when Patience is over. The exec may be running: Attach, or
// Run with the same ID and Spec, finds out.
var ErrGaveUp = errors.New("gave up")

const (
	defaultPatience = 30 * time.Second
	firstBackoff    = 100 * time.Millisecond
	mostBackoff     = 5 * time.Second
	cancelGrace     = 5 * time.Second
	mostHoles       = 3
)

// Run starts the command, or attaches to it, and follows it until the machine says how it ended: Exit,
// with all output before its end offsets handed to sink, or Lost. A stream that ends in any other
// way is opened again where it stopped; the end of a stream is never read as success. A refusal
// comes back as *wire.Error in the chain. The Result holds what is known, also beside an error.
func (c *Client) Run(ctx context.Context, command Command, sink Sink) (Result, error) {
	if command.ID == "" {
		id, err := wire.NewID()
		if err != nil {
			return Result{}, err
		}
		command.ID = id
	}
	request := &wirev1.ExecRequest{
		ExecId: command.ID, Scope: c.options.Scope, Fence: c.options.Fence,
		Digest: wire.Digest(c.options.Scope, command.Spec), IfEpoch: command.IfEpoch, Spec: command.Spec,
	}
	if err := wire.CheckExec(request); err != nil {
		return Result{ID: command.ID}, wire.Invalid(err)
	}
	if command.Stdin != nil && wire.StdinMode(command.Spec.GetStdin()) != wirev1.StdinMode_STDIN_MODE_PIPE {
		return Result{ID: command.ID}, wire.Invalid(&wire.FieldError{Field: "spec.stdin.mode", Problem: "is not PIPE, so that nothing can be sent"})
	}
	return c.newRun(command.ID, command.Follow, sink, request).drive(ctx)
}

// errStarted ends a Start's stream.
var errStarted = errors.New("started")

// Start is Run that returns once the machine says that the exec has a process, and leaves it running.
// The Result then has Started; it has Exit or Lost instead where no process was made.
func (c *Client) Start(ctx context.Context, command Command) (Result, error) {
	command.Stdin, command.TermOnCancel = nil, false
	result, err := c.Run(ctx, command, leaving{Writers(nil, nil)})
	if errors.Is(err, errStarted) {
		err = nil
	}
	return result, err
}

// leaving is a Sink that ends a run at its start.
type leaving struct{ Sink }

func (leaving) Started(*wirev1.Started) error { return errStarted }

// Attach follows an exec that is known to the machine, as Run does; it never starts anything.
func (c *Client) Attach(ctx context.Context, id string, follow Follow, sink Sink) (Result, error) {
	if _, err := wire.IDTime(id); err != nil {
		return Result{ID: id}, wire.Invalid(&wire.FieldError{Field: "exec_id", Problem: err.Error()})
	}
	return c.newRun(id, follow, sink, nil).drive(ctx)
}

// run is one Run or Attach.
type run struct {
	client  *Client
	follow  Follow
	sink    Sink
	request *wirev1.ExecRequest // nil: attach only
	cursor  cursor
	result  Result
	begun   chan struct{} // closed at the first Started

	waited   time.Duration // on retryable refusals
	renewed  bool          // a fresh token was asked for since the last progress
	progress bool          // since the last failure
	holes    int           // streams with missing bytes since the last new byte
}

func (c *Client) newRun(id string, follow Follow, sink Sink, request *wirev1.ExecRequest) *run {
	if follow.Patience <= 0 {
		follow.Patience = defaultPatience
	}
	if request != nil {
		follow.Once = false
	}
	return &run{
		client: c, follow: follow, sink: sink, request: request, result: Result{ID: id}, begun: make(chan struct{}),
		cursor: cursor{stdout: follow.From.GetStdout(), stderr: follow.From.GetStderr()},
	}
}

func (r *run) drive(ctx context.Context) (Result, error) {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	live, stop := r.outlive(ctx)
	defer stop()
	fed := r.feed(live, abort)
	err := r.loop(live)
	unfed := fed()
	if own := (*sinkError)(nil); errors.As(err, &own) && r.follow.TermOnCancel {
		r.terminate(context.WithoutCancel(ctx))
	}
	r.result.Gaps, r.result.Offsets = r.cursor.gaps, r.cursor.offsets()
	ended := r.result.Exit != nil || r.result.Lost != nil
	if _, refused := wire.AsError(unfed); err == nil && unfed != nil && !refused {
		// An exec that has ended needs no more stdin, but it ended without all of it.
		err = r.client.failed("exec "+r.result.ID, unfed)
	}
	if err != nil && ctx.Err() != nil && !ended {
		err = fmt.Errorf("exec %s on %s: %w", r.result.ID, r.client.options.Address, context.Cause(ctx))
	}
	return r.result, err
}

// outlive is the context that streams live under: ctx itself, or, with TermOnCancel, one that ends
// cancelGrace after ctx, with a TERM in between.
func (r *run) outlive(ctx context.Context) (context.Context, func()) {
	if !r.follow.TermOnCancel {
		return context.WithCancel(ctx)
	}
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-live.Done():
			return
		case <-ctx.Done():
		}
		grace, end := context.WithTimeout(live, cancelGrace)
		defer end()
		if !r.terminate(grace) {
			cancel()
			return
		}
		<-grace.Done()
		cancel()
	}()
	return live, func() { cancel(); <-done }
}

// terminate asks the exec to end, and says whether that arrived.
func (r *run) terminate(ctx context.Context) bool {
	ctx, end := context.WithTimeout(ctx, cancelGrace)
	defer end()
	number := int32(sigTerm)
	if r.follow.CancelSignal != 0 {
		number = r.follow.CancelSignal
	}
	_, err := r.client.Signal(ctx, r.result.ID, number, wirev1.SignalTarget_SIGNAL_TARGET_GROUP)
	if err != nil {
		r.client.log.Warn("cancelled exec was not signalled", "exec", r.result.ID, "error", err)
	}
	return err == nil
}

// sigTerm is SIGTERM's number on Linux, which every machine runs, whatever this computer is.
const sigTerm = 15

// loop opens streams until one ends with Exit or Lost.
func (r *run) loop(ctx context.Context) error {
	quietSince, backoff := time.Now(), firstBackoff
	for {
		r.progress = false
		err := r.stream(ctx)
		if err == nil {
			return nil
		}
		if r.progress {
			quietSince, backoff, r.renewed = time.Now(), firstBackoff, false
		}
		if ctx.Err() != nil {
			return err
		}
		pause, err := r.judge(err, backoff, quietSince)
		if err != nil {
			return err
		}
		r.client.log.Info("attaching again", "exec", r.result.ID, "pause", pause.String())
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		backoff = min(backoff*2, mostBackoff)
		r.result.Reattached++
	}
}

// judge says how long to wait before the next stream, or that there is none.
func (r *run) judge(err error, backoff time.Duration, quietSince time.Time) (time.Duration, error) {
	failed := func(err error) error { return r.client.failed("exec "+r.result.ID, err) }
	var own *sinkError
	var source *tokenError
	if errors.As(err, &own) || errors.As(err, &source) {
		return 0, failed(err)
	}
	var hole *holeError
	if errors.As(err, &hole) {
		if r.holes++; r.holes >= mostHoles {
			return 0, failed(fmt.Errorf("the machine left bytes out %d times: %w", r.holes, err))
		}
	}
	jitter := backoff/2 + rand.N(backoff/2+1) //nolint:gosec // spreads retries; nothing secret
	refusal, refused := wire.AsError(err)
	if !refused {
		if permanent(err) {
			return 0, failed(err)
		}
		if time.Since(quietSince) >= r.follow.Patience {
			return 0, failed(fmt.Errorf("%w after %s without progress: %w", ErrGaveUp, r.follow.Patience, err))
		}
		return jitter, nil
	}
	switch refusal.Reason {
	case wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL, wirev1.ErrorReason_ERROR_REASON_TOKEN:
		renewer, ok := r.client.options.Tokens.(Renewer)
		if refusal.Reason == wirev1.ErrorReason_ERROR_REASON_TOKEN && !ok || r.renewed {
			return 0, failed(err)
		}
		if ok {
			renewer.Renew()
		}
		r.renewed = true
		return 0, nil
	}
	if !refusal.Retryable || r.waited >= r.follow.Wait {
		return 0, failed(err)
	}
	pause := min(max(jitter, refusal.RetryAfter), r.follow.Wait-r.waited)
	r.waited += pause
	return pause, nil
}

// permanent says whether an error without a reason is one that no retry changes: the peer is no control
// server, or does not know the call.
func permanent(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeUnimplemented, connect.CodeNotFound, connect.CodePermissionDenied,
		connect.CodeUnauthenticated, connect.CodeInvalidArgument:
		return true
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
