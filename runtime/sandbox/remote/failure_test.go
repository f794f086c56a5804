package remote

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestRefusalsAreTheSeamsErrors(t *testing.T) {
	for reason, want := range map[wirev1.ErrorReason]error{
		wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:   sandbox.ErrUnknown,
		wirev1.ErrorReason_ERROR_REASON_CONFLICT:       sandbox.ErrConflict,
		wirev1.ErrorReason_ERROR_REASON_EXPIRED:        sandbox.ErrExpired,
		wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID:   sandbox.ErrForbidden,
		wirev1.ErrorReason_ERROR_REASON_FENCED:         sandbox.ErrFenced,
		wirev1.ErrorReason_ERROR_REASON_SUPERSEDED:     sandbox.ErrFenced,
		wirev1.ErrorReason_ERROR_REASON_VERSION:        sandbox.ErrUnsupported,
		wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED:  sandbox.ErrUnsupported,
		wirev1.ErrorReason_ERROR_REASON_INVALID:        syscall.EINVAL,
		wirev1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE: syscall.E2BIG,
	} {
		if err := failure(t.Context(), wire.Refuse(reason, "no").Connect()); !errors.Is(err, want) {
			t.Errorf("%v: %v, not %v", reason, err, want)
		}
	}
	for _, reason := range []wirev1.ErrorReason{
		wirev1.ErrorReason_ERROR_REASON_QUIESCED, wirev1.ErrorReason_ERROR_REASON_STOPPING, wirev1.ErrorReason_ERROR_REASON_TOO_MANY,
		wirev1.ErrorReason_ERROR_REASON_DISK_FULL, wirev1.ErrorReason_ERROR_REASON_TOKEN, wirev1.ErrorReason_ERROR_REASON_SCOPE,
	} {
		refusal := wire.Refuse(reason, "no")
		refusal.RetryAfter = time.Second
		var got *sandbox.UnavailableError
		if err := failure(t.Context(), refusal.Connect()); !errors.As(err, &got) || !got.Refused || got.RetryAfter != time.Second {
			t.Errorf("%v: %#v", reason, err)
		}
	}
	var broken *sandbox.UnavailableError
	if err := failure(t.Context(), io.ErrUnexpectedEOF); !errors.As(err, &broken) || broken.Refused {
		t.Errorf("a broken connection: %#v", err)
	}
	why := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := failure(ctx, io.ErrUnexpectedEOF); !errors.Is(err, why) {
		t.Errorf("after the context: %v", err)
	}
}

// The end of a script that is not its own is never taken for an answer about a file.
func TestAScriptThatWasEndedIsNoAnswerAboutAFile(t *testing.T) {
	o := operation{op: "read"}
	for _, c := range []struct {
		exit        sandbox.Exit
		unavailable bool
		is          error
	}{
		{sandbox.Exit{Cause: sandbox.CauseExited}, false, nil},
		{sandbox.Exit{Cause: sandbox.CauseExited, Code: readFailed}, false, syscall.EIO},
		{sandbox.Exit{Cause: sandbox.CauseExited, Code: 127}, false, sandbox.ErrUnsupported},
		{sandbox.Exit{Cause: sandbox.CauseStartFailed, Code: 127}, false, sandbox.ErrUnsupported},
		{sandbox.Exit{Cause: sandbox.CauseExited, Code: 2}, false, syscall.EIO},
		{sandbox.Exit{Cause: sandbox.CauseExited, Code: 137, Signal: 9}, true, nil},
		{sandbox.Exit{Cause: sandbox.CauseStopping, Code: 0}, true, nil},
		{sandbox.Exit{Cause: sandbox.CauseUnattended, Code: 143, Signal: 15}, true, nil},
		{sandbox.Exit{Cause: sandbox.CauseStdin, Code: 137, Signal: 9}, true, nil},
	} {
		err := o.judge(readScript, c.exit)
		var unavailable *sandbox.UnavailableError
		if errors.As(err, &unavailable) != c.unavailable || c.is != nil && !errors.Is(err, c.is) || c.is == nil && !c.unavailable && err != nil {
			t.Errorf("%+v: %v", c.exit, err)
		}
	}
}
