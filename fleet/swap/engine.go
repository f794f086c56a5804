package swap

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// API is what the engine asks of the platform; *flyapi.Client is one.
type API interface {
	GetMachine(ctx context.Context, app, id string) (*flyapi.Machine, error)
	UpdateMachine(ctx context.Context, app, id string, u flyapi.UpdateRequest) (*flyapi.Machine, error)
	StartMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	StopMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	CordonMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	UncordonMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	WaitMachine(ctx context.Context, app, id string, w flyapi.WaitRequest) error
	SetMetadata(ctx context.Context, app, id, key, value string) error
	DeleteMetadata(ctx context.Context, app, id, key string) error
	ExecMachine(ctx context.Context, app, id string, command []string, timeout time.Duration) (flyapi.ExecResult, error)
	WithLease(ctx context.Context, app, id string, fn func(ctx context.Context, lease flyapi.Lease) error) error
}

// Options tune an Engine. The zero value is usable.
type Options struct {
	// Poll is the pause between two questions about drain, checks and probe; 0 means 2 s.
	Poll time.Duration
	// StartGrace is how long a machine that was started may read stopped while it is being replaced; 0 means 15 s.
	StartGrace time.Duration
	// BreakAfter is how many failed swaps to one image open the breaker; 0 means 3.
	BreakAfter int
	// Hello says Hello to the machine over the wire, as a last gate; nil where no transport and key are configured.
	Hello func(ctx context.Context, app, machine string) error
	// Log gets one line a step; nil discards.
	Log *slog.Logger
}

// Engine swaps images. It is safe for concurrent use by many swaps; its breaker counts over all of them.
type Engine struct {
	api     API
	opt     Options
	breaker breaker
}

// New makes an engine over api.
func New(api API, opt Options) *Engine {
	opt.Poll = orDuration(opt.Poll, 2*time.Second)
	opt.StartGrace = orDuration(opt.StartGrace, 15*time.Second)
	if opt.BreakAfter <= 0 {
		opt.BreakAfter = 3
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{api: api, opt: opt, breaker: breaker{after: opt.BreakAfter, failed: map[string]int{}}}
}

// Swap sets the machine's image and nothing else. The Outcome is filled in every case; the error is nil when the machine
// is as wanted (Outcome.Done) and an *Error otherwise.
func (e *Engine) Swap(ctx context.Context, t Target) (Outcome, error) {
	return e.run(ctx, t, imageEdit{to: t.Image})
}

func (e *Engine) run(ctx context.Context, t Target, ed edit) (Outcome, error) {
	began := time.Now()
	s := &session{engine: e, t: t.withDefaults(), edit: ed}
	s.out = Outcome{App: t.App, Machine: t.Machine, To: ed.target()}
	st := s.run(ctx)
	s.out.Seconds = time.Since(began).Seconds()
	if st == nil {
		e.opt.Log.InfoContext(ctx, "swap", "app", t.App, "machine", t.Machine, "status", s.out.Status, "gate", s.out.Gate, "to", s.out.To)
		return s.out, nil
	}
	s.out.Status, s.out.Code, s.out.Reason = st.status, st.code, st.reason
	if st.status == Failed && s.out.Written {
		e.breaker.count(ed.target())
	}
	e.opt.Log.WarnContext(ctx, "swap", "app", t.App, "machine", t.Machine, "status", s.out.Status, "code", st.code, "reason", st.reason)
	return s.out, &Error{Outcome: s.out, Err: st.err}
}

// breaker stops a bad image after a few machines instead of after all.
type breaker struct {
	mu     sync.Mutex
	after  int
	failed map[string]int
}

func (b *breaker) count(image string) {
	if image == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed[image]++
}

func (b *breaker) open(image string) *stop {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.failed[image]; image != "" && n >= b.after {
		return skip(CodeBreaker, "%d swaps to %s failed already; repair the image, then run again", n, image)
	}
	return nil
}

// trouble turns a failed call into a stop.
func (s *session) trouble(ctx context.Context, err error) *stop {
	var st *stop
	if errors.As(err, &st) {
		return st
	}
	var lost *flyapi.LeaseLostError
	if errors.As(err, &lost) || errors.As(context.Cause(ctx), &lost) {
		return fail(CodeLost, "%v; its state is what Fly shows now", lost).because(err)
	}
	if ctx.Err() != nil {
		if !s.out.Written {
			return skip(CodeCanceled, "the caller gave up: %v", context.Cause(ctx)).because(err)
		}
		return fail(CodeCanceled, "the caller gave up after the new version was sent: %v; read the machine to see what became of it", context.Cause(ctx)).because(err)
	}
	var held *flyapi.LeaseHeldError
	if errors.As(err, &held) {
		return skip(CodeLeased, "%v", held).because(err)
	}
	if flyapi.IsNotFound(err) && !s.out.Written {
		return skip(CodeGone, "Fly does not know it: %v", err).because(err)
	}
	return fail(CodeAPI, "%v", err).because(err)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
