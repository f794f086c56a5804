package remote

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// failure is the seam's form of an error that a call over the wire returned.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	refusal, refused := wire.AsError(err)
	if !refused {
		return &sandbox.UnavailableError{Reason: err.Error(), Err: err}
	}
	wrap := func(seam error) error { return fmt.Errorf("%w: %w", seam, err) }
	switch refusal.Reason {
	case wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:
		return wrap(sandbox.ErrUnknown)
	case wirev1.ErrorReason_ERROR_REASON_CONFLICT:
		return wrap(sandbox.ErrConflict)
	case wirev1.ErrorReason_ERROR_REASON_EXPIRED:
		return wrap(sandbox.ErrExpired)
	case wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID:
		return wrap(sandbox.ErrForbidden)
	case wirev1.ErrorReason_ERROR_REASON_FENCED, wirev1.ErrorReason_ERROR_REASON_SUPERSEDED:
		return wrap(sandbox.ErrFenced)
	case wirev1.ErrorReason_ERROR_REASON_VERSION, wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED:
		return wrap(sandbox.ErrUnsupported)
	case wirev1.ErrorReason_ERROR_REASON_INVALID:
		return wrap(syscall.EINVAL)
	case wirev1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE:
		return wrap(syscall.E2BIG)
	}
	return &sandbox.UnavailableError{Reason: refusal.Message, RetryAfter: refusal.RetryAfter, Refused: true, Err: err}
}

var lostReasons = map[wirev1.LostReason]string{
	wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED: "the machine restarted",
	wirev1.LostReason_LOST_REASON_KEEPER_DIED:       "the machine's keeper of processes died",
}

func lost(id string, l *wirev1.Lost) error {
	reason, known := lostReasons[l.GetReason()]
	if !known {
		reason = "the machine does not know its end"
	}
	return &sandbox.LostError{ID: id, Reason: reason, Ends: sandbox.Offsets{Stdout: int64(l.GetStdoutEnd()), Stderr: int64(l.GetStderrEnd())}}
}

// errTorn says that an answer does not have the form that its script gives it.
var errTorn = errors.New("the machine's answer is not what its script gives")
