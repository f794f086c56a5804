package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// Agent is who answers in a session, and what it can do.
type Agent struct {
	turn.Agent
	Model model.Model
	Tools *tools.Registry
	// Calls are what commands may ask for on the way back; nil: nothing.
	Calls Calls
}

// Calls are tools for commands. Its methods may be called from many goroutines.
type Calls interface {
	// Plan and Run are those of tools.Registry.
	Plan(name string, args json.RawMessage) tools.Plan
	Run(ctx context.Context, name string, call tools.Call) (tools.Result, error)
	// Show is what a person is shown of a call: its arguments, with what matters of the body.
	Show(args json.RawMessage, body []byte) json.RawMessage
	// Title is what the journal says of a call: a line. "" says nothing.
	Title(args json.RawMessage) string
}

// WayBack is how commands reach the runtime.
type WayBack struct {
	// URL below which they find upstreams.
	URL string
	// Keys make their tokens.
	Keys *machinetoken.Keys
}

// Agents gives an agent by the name that its sessions have.
type Agents interface {
	Agent(name string) (Agent, error)
}

// Options of a Driver. Store, Agents and Machines are needed; zero values of the others are the defaults.
type Options struct {
	Store    *store.Store
	Agents   Agents
	Machines Machines
	// Sealer opens the credentials of submissions, so that their values are masked. Nil: there are none.
	Sealer secrets.Sealer
	// Known are values that are masked in every session.
	Known []string
	// Grace is how long what was told to stop may take; then its outcome is unknown. 20 s.
	Grace time.Duration
	// WayBack of commands of agents that have Calls. Nil: there is none.
	WayBack *WayBack
	// HoldTime is how long a command's clock stands when nobody renews that, while a person is asked about a call in it. 10
	// minutes; renewed each third of it.
	HoldTime time.Duration
	// CardTime is how long a person has to decide. 7 days.
	CardTime time.Duration
	// ModelSilence is how long a model call may go without a word; then it is asked again. 15 minutes.
	ModelSilence time.Duration
	// FailedWait is how long a session is left alone after its turn failed for a reason of ours. 30 s.
	FailedWait time.Duration
	// Jitter spreads back-offs, in [0, 1).
	Jitter func() float64
	// Traces takes spans of turns, model calls, calls and commands. Nil: there are none.
	Traces trace.TracerProvider
	// Log; slog.Default().
	Log *slog.Logger
}

// Driver runs turns. Its methods may be called from many goroutines.
type Driver struct {
	options Options
	tracer  trace.Tracer
}

// The last attempt is the one without neighbours: a submission is given up when an owner has died over it that had no other.
var _ = [1]struct{}{}[turn.MaxAttempts-1-store.AloneAfter]

// New makes a driver.
func New(o Options) (*Driver, error) {
	if o.Store == nil || o.Agents == nil || o.Machines == nil {
		return nil, errors.New("driver: it needs a store, agents and machines")
	}
	o.Grace = orDefault(o.Grace, 20*time.Second)
	o.CardTime = orDefault(o.CardTime, 7*24*time.Hour)
	o.HoldTime = orDefault(o.HoldTime, 10*time.Minute)
	o.ModelSilence = orDefault(o.ModelSilence, 15*time.Minute)
	o.FailedWait = orDefault(o.FailedWait, 30*time.Second)
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 0.5 }
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Traces == nil {
		o.Traces = noop.NewTracerProvider()
	}
	return &Driver{options: o, tracer: o.Traces.Tracer(scopeName)}, nil
}

func orDefault(v, otherwise time.Duration) time.Duration {
	if v <= 0 {
		return otherwise
	}
	return v
}

// errLeft ends what still runs when the session was given up in good order.
var errLeft = errors.New("the session was given up")

// Run works on a claimed session until nothing is left to do, it waits for a person, drain is closed, or it is lost
// to another owner; then the claim is over. The end of ctx is like a death: nothing is given up in good order. Run
// returns when everything it began in this process has ended. The error is store.ErrFenced for a lost session.
func (d *Driver) Run(ctx context.Context, claim store.Claim, drain <-chan struct{}) error {
	life, end := context.WithCancelCause(ctx)
	s := newSession(life, end, d, claim)
	err := s.run(drain)
	if err == nil {
		end(errLeft)
	} else {
		end(err)
	}
	s.owned.Wait()
	s.endSpan(endOf(err), err)
	s.places.close()
	if err == nil || errors.Is(err, store.ErrFenced) || ctx.Err() != nil {
		return err
	}
	// A fault of ours, or of the database. Somebody tries again, later.
	if failed := d.options.Store.Release(ctx, s.claim, d.options.FailedWait); failed != nil && !errors.Is(failed, store.ErrFenced) {
		err = errors.Join(err, failed)
	}
	return fmt.Errorf("session %s: %w", claim.Session, err)
}
