package journal

import (
	"fmt"

	"github.com/google/uuid"
)

// UnknownError says that an entry holds what this build does not know: a kind, a part, an enum's value. A
// newer build wrote it. The session must be left alone.
type UnknownError struct {
	// Kind of the entry, by its column.
	Kind Kind
	// What is unknown.
	What string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("journal entry of kind %s holds %s, which this build does not know; a newer build wrote it: run that one", e.Kind, e.What)
}

// CorruptError says that an entry's bytes are not what its columns promise.
type CorruptError struct {
	Kind   Kind
	Reason string
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal entry of kind %s is corrupt: %s", e.Kind, e.Reason)
}

// Unwrap gives the decoder's error, which may be nil.
func (e *CorruptError) Unwrap() error { return e.Err }

// OrderError says that an entry cannot follow those before it.
type OrderError struct {
	Session uuid.UUID
	Seq     int64
	Kind    Kind
	// Call is the call it is about, if any.
	Call   string
	Reason string
}

func (e *OrderError) Error() string {
	about := ""
	if e.Call != "" {
		about = " of call " + e.Call
	}
	return fmt.Sprintf("session %s: entry %d, %s%s, is impossible: %s", e.Session, e.Seq, e.Kind, about, e.Reason)
}
