package gateway

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// answers are what the store may say, in a caller's words. They name nothing of another tenant's.
var answers = []struct {
	err  error
	code connect.Code
	text string
}{
	{store.ErrNotFound, connect.CodeNotFound, "no such %s"},
	{store.ErrConflict, connect.CodeAlreadyExists, "the id or idempotency key of the %s was used for something else: take another"},
	{store.ErrBusy, connect.CodeFailedPrecondition, "the %s is at work: wait until it is idle, or use another busy policy"},
	{store.ErrClosed, connect.CodeFailedPrecondition, "the %s is closed: it takes no more input"},
	{store.ErrExpired, connect.CodeFailedPrecondition, "the %s has expired"},
}

// failed makes an answer of what went wrong with a thing ("session"). What is nobody's business outside is logged, and told
// as internal.
func (g *Gateway) failed(ctx context.Context, what string, err error) error {
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return connect.NewError(a.code, fmt.Errorf(a.text, what))
		}
	}
	decided, newer := new(store.DecidedError), new(journal.UnknownError)
	switch {
	case errors.As(err, &decided):
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the %s is %s already", what, decided.Approval.State))
	case errors.As(err, &newer):
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the %s was written by a newer version of the server", what))
	case errors.Is(context.Cause(ctx), errStopping):
		return connect.NewError(connect.CodeUnavailable, errStopping)
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, errors.New("the caller has gone"))
	case store.Passing(err):
		g.log.WarnContext(ctx, "the database does not answer", "error", err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the database does not answer now: try again"))
	}
	g.log.ErrorContext(ctx, "request failed", "what", what, "tenant", CallerOf(ctx).Tenant, "error", err)
	return connect.NewError(connect.CodeInternal, fmt.Errorf("the %s could not be worked on; the server's log says why", what))
}
