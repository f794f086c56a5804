package wire

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// FieldError says which field of a request is wrong and why. It never quotes the value.
type FieldError struct {
	// Field is the proto name, dotted and indexed: "spec.env[3].name".
	Field string
	// Problem continues the field's name: "is empty".
	Problem string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Error is a refusal of the machine, or one made in its form: a reason to branch on, a text for a
// person, and what a retry needs. Servers make it with Refuse and send Connect's form of it; clients
// read it back with AsError.
type Error struct {
	Reason wirev1.ErrorReason
	// Message for a person; never holds argv, env values or tokens.
	Message string
	// Retryable: the same call may succeed later, at the earliest after RetryAfter when that is set.
	Retryable  bool
	RetryAfter time.Duration
	// Fence is the highest one seen, with FENCED and SUPERSEDED.
	Fence uint64
	// Field that was wrong, with INVALID.
	Field string
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is compare by reason alone, so that a caller may write
// errors.Is(err, &wire.Error{Reason: wirev1.ErrorReason_ERROR_REASON_QUIESCED}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// Refuse makes a refusal; QUIESCED, STOPPING, TOO_MANY, TOKEN_RENEWAL and DISK_FULL are retryable.
func Refuse(reason wirev1.ErrorReason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...), Retryable: retryable(reason)}
}

// Invalid makes a refusal out of a failed field check; another error keeps its text and has no field.
func Invalid(err error) *Error {
	e := Refuse(wirev1.ErrorReason_ERROR_REASON_INVALID, "invalid request: %v", err)
	var f *FieldError
	if errors.As(err, &f) {
		e.Field = f.Field
	}
	return e
}

func retryable(reason wirev1.ErrorReason) bool {
	switch reason {
	case wirev1.ErrorReason_ERROR_REASON_QUIESCED, wirev1.ErrorReason_ERROR_REASON_STOPPING,
		wirev1.ErrorReason_ERROR_REASON_TOO_MANY, wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL,
		wirev1.ErrorReason_ERROR_REASON_DISK_FULL:
		return true
	}
	return false
}

var codes = map[wirev1.ErrorReason]connect.Code{
	wirev1.ErrorReason_ERROR_REASON_INVALID:        connect.CodeInvalidArgument,
	wirev1.ErrorReason_ERROR_REASON_TOKEN:          connect.CodeUnauthenticated,
	wirev1.ErrorReason_ERROR_REASON_SCOPE:          connect.CodePermissionDenied,
	wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:   connect.CodeNotFound,
	wirev1.ErrorReason_ERROR_REASON_CONFLICT:       connect.CodeFailedPrecondition,
	wirev1.ErrorReason_ERROR_REASON_EXPIRED:        connect.CodeFailedPrecondition,
	wirev1.ErrorReason_ERROR_REASON_FORBIDDEN_ID:   connect.CodeFailedPrecondition,
	wirev1.ErrorReason_ERROR_REASON_FENCED:         connect.CodeFailedPrecondition,
	wirev1.ErrorReason_ERROR_REASON_SUPERSEDED:     connect.CodeAborted,
	wirev1.ErrorReason_ERROR_REASON_QUIESCED:       connect.CodeUnavailable,
	wirev1.ErrorReason_ERROR_REASON_STOPPING:       connect.CodeUnavailable,
	wirev1.ErrorReason_ERROR_REASON_TOO_MANY:       connect.CodeResourceExhausted,
	wirev1.ErrorReason_ERROR_REASON_DISK_FULL:      connect.CodeResourceExhausted,
	wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL:  connect.CodeUnauthenticated,
	wirev1.ErrorReason_ERROR_REASON_VERSION:        connect.CodeFailedPrecondition,
	wirev1.ErrorReason_ERROR_REASON_BODY_TOO_LARGE: connect.CodeResourceExhausted,
	wirev1.ErrorReason_ERROR_REASON_TOO_SLOW:       connect.CodeDeadlineExceeded,
	wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED:  connect.CodeUnimplemented,
}

// Code is the Connect code that a refusal of this reason travels with.
func (e *Error) Code() connect.Code {
	if code, ok := codes[e.Reason]; ok {
		return code
	}
	return connect.CodeUnknown
}

// Connect is the error as it travels: Connect's code and text, and the detail that clients branch on.
func (e *Error) Connect() *connect.Error {
	out := connect.NewError(e.Code(), e)
	detail, err := connect.NewErrorDetail(&wirev1.ErrorDetail{
		Reason: e.Reason, Retryable: e.Retryable, RetryAfterMs: e.RetryAfter.Milliseconds(),
		Fence: e.Fence, Field: e.Field,
	})
	if err == nil {
		out.AddDetail(detail)
	}
	return out
}

// AsError finds the refusal in an error that a call returned: an *Error in the chain, or the detail of
// a Connect error. False means that the other side gave no reason: a transport failure, or not our
// server.
func AsError(err error) (*Error, bool) {
	var own *Error
	if errors.As(err, &own) {
		return own, true
	}
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return nil, false
	}
	for _, d := range remote.Details() {
		value, err := d.Value()
		if err != nil {
			continue
		}
		if detail, ok := value.(*wirev1.ErrorDetail); ok {
			return &Error{
				Reason: detail.GetReason(), Message: remote.Message(), Retryable: detail.GetRetryable(),
				RetryAfter: time.Duration(detail.GetRetryAfterMs()) * time.Millisecond,
				Fence:      detail.GetFence(), Field: detail.GetField(),
			}, true
		}
	}
	return nil, false
}

// ReasonOf is the reason of an error that a call returned, UNSPECIFIED when it has none.
func ReasonOf(err error) wirev1.ErrorReason {
	if e, ok := AsError(err); ok {
		return e.Reason
	}
	return wirev1.ErrorReason_ERROR_REASON_UNSPECIFIED
}
