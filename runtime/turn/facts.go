package turn

import (
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Facts are what the journal does not tell. All judgements of time in it are the database's.
type Facts struct {
	// Fence of this owner.
	Fence int64
	// Attempt of the open submission, or of the one to begin next, as claims counted it: 1, and one more for each
	// takeover from an owner that died. A park, a back-off or a release in good order does not count.
	Attempt int32
	// Trusted: the owner's lease is young enough to begin something under it.
	Trusted bool
	// Draining: the replica is to stop.
	Draining bool
	// Cancel: the open submission is to end.
	Cancel bool
	// DeadlinePassed: the open submission's is over. Time that it was parked does not count.
	DeadlinePassed bool
	// GraceOver: what was told to stop has had its time.
	GraceOver bool
	// Queued are the submissions that wait, by ordinal.
	Queued []Queued
	// Joining are inputs that are to become part of the open submission's turn, by ordinal.
	Joining []uuid.UUID
	// Decisions that no approval_decided delivered yet, expiries included.
	Decisions []Decision

	// ModelRunning: a model call runs in this process.
	ModelRunning bool
	// Running are the calls that this process works on, by id.
	Running map[string]bool
	// Stopped are those of them that were told to stop, and the calls whose command was signalled.
	Stopped map[string]bool
	// Held are the execs whose clock this process has stopped.
	Held map[string]bool
	// Asked are calls that commands ask for and that no entry tells of, the oldest first.
	Asked []Asked
	// Ended are the execs of which the machine says that they have ended.
	Ended map[string]bool
}

// Asked is a call that a command asks for.
type Asked struct {
	// Call is its id, and Exec the command's.
	Call, Exec string
}

// Queued is a submission that waits.
type Queued struct {
	ID     uuid.UUID
	Policy OnBusy
	// Cancel: it is to end before it begins.
	Cancel bool
}

// Decision is what became of an approval.
type Decision struct {
	ApprovalID string
	Decision   journalv1.Decision
	By, Reason string
	// Args of DECISION_EDITED, JSON.
	Args []byte
}

// By whom a decision is that no person made.
const (
	// ByInput: the user wrote something else instead of deciding.
	ByInput = "input"
	// ByEnd: the submission ended first.
	ByEnd = "end"
)

// OnBusy is what an input does that comes while another is worked on.
type OnBusy string

// The policies.
const (
	// Queue: it waits.
	Queue OnBusy = "queue"
	// Reject: it is not taken.
	Reject OnBusy = "reject"
	// Interrupt: it cancels what goes on.
	Interrupt OnBusy = "interrupt"
	// Answer: it denies the open cards, and waits.
	Answer OnBusy = "answer"
	// Join: it denies the open cards, and is part of the turn from its next model call on.
	Join OnBusy = "join"
)
