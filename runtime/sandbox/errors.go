package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrUnknown says that the computer does not know the command, or no longer.
	ErrUnknown = errors.New("no such command")
	// ErrConflict says that another command, or another operation, has this id.
	ErrConflict = errors.New("the id is in use by another command")
	// ErrExpired says that the id is older than the computer's memory of ids. It was not run now.
	ErrExpired = errors.New("the id is too old")
	// ErrForbidden says that the id was forbidden.
	ErrForbidden = errors.New("the id was forbidden")
	// ErrFenced says that another owner of the session has been here. Stop: nothing more may be done with this sandbox. Every call ends
	// with it, also a Follow under way, and does nothing; commands run on and are the new owner's. A restart of the computer changes nothing of that.
	ErrFenced = errors.New("another owner has taken the session over")
	// ErrUnsupported says that this backend, or this computer, cannot do it.
	ErrUnsupported = errors.New("not supported here")
)

// UnavailableError says that the computer cannot take the operation now, or cannot be reached. Nothing says whether an operation that had
// been sent was done: the same call on Once with the same id finds out.
type UnavailableError struct {
	// Reason for a person.
	Reason string
	// RetryAfter is how long to wait at least; 0 when unknown.
	RetryAfter time.Duration
	// Refused: the computer answered, and nothing was done.
	Refused bool
	Err     error
}

func (e *UnavailableError) Error() string { return "the sandbox is not available: " + e.Reason }

// Unwrap gives the cause, which may be nil.
func (e *UnavailableError) Unwrap() error { return e.Err }

// LostError says that the end of a command will never be known, because its computer restarted. It is not running and was not started again.
type LostError struct {
	ID     string
	Reason string
	// Ends is how much output is kept of it.
	Ends Offsets
}

func (e *LostError) Error() string { return fmt.Sprintf("command %s is lost: %s", e.ID, e.Reason) }

// TreeError lists what of a tree could not be read or written. All else was.
type TreeError struct {
	// Failed has an *fs.PathError each, at most 100.
	Failed []error
	// More counts those beyond.
	More int
}

// mostFailed is how many failures a TreeError lists.
const mostFailed = 100

// Add notes a failure, which is to be an *fs.PathError: backends gather by it.
func (e *TreeError) Add(err error) {
	if len(e.Failed) >= mostFailed {
		e.More++
		return
	}
	e.Failed = append(e.Failed, err)
}

func (e *TreeError) Error() string {
	lines := make([]string, 0, len(e.Failed)+1)
	for _, err := range e.Failed {
		lines = append(lines, err.Error())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each failure to errors.Is and errors.As.
func (e *TreeError) Unwrap() []error { return e.Failed }
