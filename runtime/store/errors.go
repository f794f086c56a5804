package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
)

var (
	// ErrFenced says that the session has another owner, or none: stop the turn and write nothing more.
	ErrFenced = errors.New("store: the session has another owner by now")
	// ErrLapsed says that this replica has not beaten for so long that it must not start an effect.
	ErrLapsed = errors.New("store: the last beat is too long ago to start anything")
	// ErrNotStarted says that the compare-and-set of StartEffect was lost: the call was started or settled before, its
	// arguments are not those that were intended or approved, or its approval is missing, denied or used.
	ErrNotStarted = errors.New("store: the call may not be started")
	// ErrNoSlot says that the machine has no free slot, or that the session has a slot on another machine.
	ErrNoSlot = errors.New("store: the machine has no free slot for the session")
	// ErrGap says that Step.After is not the last entry: the owner's view of the session is wrong.
	ErrGap = errors.New("store: the entries do not follow the session's last one")
	// ErrCollision says that other entries have these numbers under the owner's own fence. It is a bug of ours: stop
	// the turn loudly.
	ErrCollision = errors.New("store: other entries have these numbers")
	// ErrOutcomeUnknown says that the context ended before it was known whether the step was committed.
	ErrOutcomeUnknown = errors.New("store: it is not known whether that was committed")
	// ErrConflict says that the idempotency key was used with another payload.
	ErrConflict = errors.New("store: the idempotency key belongs to another payload")
	// ErrBusy says that the session works on something, and the policy was to reject then.
	ErrBusy = errors.New("store: the session is busy")
	// ErrNotFound says that the tenant has no such row.
	ErrNotFound = errors.New("store: not found")
	// ErrClosed says that the session takes no more input.
	ErrClosed = errors.New("store: the session is closed")
	// ErrExpired says that an approval was decided too late, or that credentials are too old.
	ErrExpired = errors.New("store: expired")
	// ErrNotErasable says that an entry cannot be replaced by a redaction.
	ErrNotErasable = errors.New("store: the entry says what happened, it holds nobody's words")
	// ErrClosing says that Close was called.
	ErrClosing = errors.New("store: closing")
)

// StateError says that a row is not in the state that a step needs. It is a bug of the owner's, or the step came twice.
type StateError struct{ Reason string }

func (e *StateError) Error() string { return "store: " + e.Reason }

// DecidedError says that somebody decided before; Approval has the decision.
type DecidedError struct{ Approval Approval }

func (e *DecidedError) Error() string {
	return fmt.Sprintf("store: approval %s was decided before: %s", e.Approval.ID, e.Approval.State)
}

// Codes that must() raises, and those of Postgres that matter here.
const (
	codeFenced     = "FF001"
	codeNotStarted = "FF002"
	codeNoSlot     = "FF003"
	codeState      = "FF004"
	codeGap        = "FF005"
	codeUnique     = "23505"
)

// promise turns what must() raised into the error that callers branch on.
func promise(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch pg.Code {
	case codeFenced:
		return ErrFenced
	case codeNotStarted:
		return ErrNotStarted
	case codeNoSlot:
		return ErrNoSlot
	case codeState:
		return &StateError{Reason: pg.Message}
	case codeGap:
		return ErrGap
	}
	return err
}

func hasCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// refused says that the database, or this store, answered, and the answer is no.
func refused(err error) bool {
	state := new(StateError)
	for _, no := range []error{
		ErrFenced, ErrLapsed, ErrNotStarted, ErrNoSlot, ErrGap, ErrCollision, ErrConflict, ErrBusy, ErrNotFound, ErrClosed, ErrExpired, ErrClosing,
		errAlone, pgx.ErrNoRows,
	} {
		if errors.Is(err, no) {
			return true
		}
	}
	decided, unknown, corrupt := new(DecidedError), new(journal.UnknownError), new(journal.CorruptError)
	return errors.As(err, &state) || errors.As(err, &decided) || errors.As(err, &unknown) || errors.As(err, &corrupt)
}

// certain says that what was asked was not carried out, and why is known.
func certain(err error) bool {
	var pg *pgconn.PgError
	return refused(err) || errors.As(err, &pg) && !passing(err)
}

// passing says that the same statement may succeed later: the connection broke, the server restarts, has no room,
// or gave way to another transaction. Whether it was carried out is not known. What is not known here is not
// passing: a mistake of ours must not be tried for ever.
func passing(err error) bool {
	if refused(err) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return passingCode(pg.Code)
	}
	var network net.Error
	var number syscall.Errno
	var connect *pgconn.ConnectError
	for _, broken := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, broken) {
			return true
		}
	}
	return pgconn.SafeToRetry(err) || errors.As(err, &network) || errors.As(err, &number) || errors.As(err, &connect)
}

// Passing says that what failed with this error may succeed later as it is: the database was away, or busy.
func Passing(err error) bool { return passing(err) || errors.Is(err, ErrClosing) }

func passingCode(code string) bool {
	switch code[:2] {
	case "08", "53", "57", "58":
		return true
	}
	switch code {
	case "40001", "40003", "40P01", "55P03", "25P03":
		return true
	}
	return false
}
