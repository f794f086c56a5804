package store

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Step is what one transition of a turn changes: entries, and the rows that follow from them, together or not at all.
// A step that changes rows needs an entry too, except for Terminalize.
type Step struct {
	// After is the session's last entry; the step's entries are numbered from After + 1.
	After int64
	// Entries to append. Of each only Submission and Body count; Commit gives the rest.
	Entries []journal.Entry
	// Async lets a crash of the database lose the step, though never out of order. For model_delta only.
	Async bool

	// Accept are submissions whose input is in the entries: the running one, or one that joins it.
	Accept []Accept
	// Intend are calls that an answer asks for, or a command.
	Intend []Effect
	// Take are calls that commands ask for and that the entries tell of now.
	Take []Take
	// Request are cards to show; their calls are parked.
	Request []Request
	// Deliver are approvals whose decision the entries tell.
	Deliver []Deliver
	// Start are calls that may have their effect from now on.
	Start []Start
	// Slot is the session's right to a machine; with its first exec.
	Slot *Slot
	// Execs are commands that may run from now on.
	Execs []Exec
	// ExecEnds are ends of commands.
	ExecEnds []ExecEnd
	// Settle are calls that have their result.
	Settle []Settle
	// Terminalize reserves the end of a submission before it is written, alone in its step.
	Terminalize *Terminal
	// Finish is the end of a submission: its credentials are deleted, its open cards close, those that joined it settle.
	Finish *Finish
}

// Accept says which entry of the step is a submission's input_accepted: At is its index in Entries, as in all that follow.
type Accept struct {
	Submission uuid.UUID
	At         int
}

// Effect is a call, in state intended.
type Effect struct {
	Call       string
	Submission uuid.UUID
	Class      journalv1.EffectClass
	Tool       string
	ArgsSHA256 []byte
}

// Take marks a command's call as seen; its Effect is in the same step.
type Take struct{ Call string }

// Request opens a card for an intended call.
type Request struct {
	Approval   uuid.UUID
	Call       string
	Submission uuid.UUID
	// ArgsSHA256 is the digest of what is shown, and all that an approval allows.
	ArgsSHA256 []byte
	// Summary is what the card shows, for those who list cards.
	Summary []byte
	// ExpiresIn is how long it may be decided.
	ExpiresIn time.Duration
	// At is the index of its approval_requested.
	At int
}

// Deliver marks a decision as told to the turn by entry At.
type Deliver struct {
	Approval uuid.UUID
	At       int
}

// Start is the compare-and-set that lets a call happen, once. ArgsSHA256 is of the arguments that will be used: those
// that were intended, or with a card those that its decision allows. The card's approval is used up.
type Start struct {
	Call       string
	ArgsSHA256 []byte
	At         int
}

// Slot is the session's place on a machine. A session that has one there keeps it.
type Slot struct{ Machine string }

// Exec is a command's row.
type Exec struct {
	ID      uuid.UUID
	Call    string
	Machine string
	// Epoch of the machine at the intent.
	Epoch string
}

// ExecEnd is how a command ended. Both ends are raw byte offsets.
type ExecEnd struct {
	ID uuid.UUID
	// Lost says that Code is not known.
	Lost      bool
	Code      int32
	StdoutEnd int64
	StderrEnd int64
}

// Settle gives a call its one result.
type Settle struct {
	Call    string
	Outcome journalv1.ToolOutcome
	// Answer is for the command that asked for the call; nil when none did.
	Answer *Answer
	At     int
}

// Answer is what a command gets for its call: the text of the result, and what the tool gave beside it.
type Answer struct{ Content, Data []byte }

// Terminal is the exact record with which a submission will end.
type Terminal struct {
	Submission uuid.UUID
	Record     []byte
}

// Finish ends a submission with the entry At.
type Finish struct {
	Submission uuid.UUID
	Outcome    journalv1.SettledOutcome
	At         int
}

// Committed is what a step has become.
type Committed struct {
	// Entries as the journal has them, ready to be folded, but for At: only who reads them later is told when that was.
	Entries []journal.Entry
}

// maxInline is how long a body may be in the journal's own row; a longer one is a blob.
const maxInline = 64 << 10

// row is an entry on its way to the database.
type row struct {
	entry journal.Entry
	body  []byte
	// blob is the body's digest when it is stored apart.
	blob []byte
}

// stored is what the journal's row holds.
func (r row) stored() []byte {
	if r.blob != nil {
		return []byte{}
	}
	return r.body
}

// prepare numbers and marshals the entries.
func (s Step) prepare(c Claim) ([]row, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(s.Entries))
	for i, e := range s.Entries {
		kind, body, err := journal.Marshal(e.Body)
		if err != nil {
			return nil, err
		}
		e.Session, e.Seq, e.Fence, e.Kind, e.Call = c.Session, s.After+1+int64(i), c.Fence, kind, journal.CallOf(e.Body)
		r := row{entry: e, body: body}
		if len(body) > maxInline {
			sum := sha256.Sum256(body)
			r.blob = sum[:]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s Step) check() error {
	if len(s.Entries) == 0 && (s.Terminalize == nil || s.changesRows()) {
		return &StateError{Reason: "a step without entries can only terminalize"}
	}
	if s.Async && (s.changesRows() || s.Terminalize != nil) {
		return &StateError{Reason: "a step that changes rows cannot be committed asynchronously"}
	}
	for _, at := range s.indexes() {
		if at < 0 || at >= len(s.Entries) {
			return &StateError{Reason: fmt.Sprintf("the step has no entry %d", at)}
		}
	}
	return nil
}

// changesRows says whether the step needs more than the journal. Terminalize, which is alone, is not counted.
func (s Step) changesRows() bool {
	return len(s.Accept)+len(s.Intend)+len(s.Take)+len(s.Request)+len(s.Deliver)+len(s.Start)+len(s.Execs)+len(s.ExecEnds)+len(s.Settle) > 0 ||
		s.Slot != nil || s.Finish != nil
}

func (s Step) indexes() []int {
	var at []int
	for _, a := range s.Accept {
		at = append(at, a.At)
	}
	for _, r := range s.Request {
		at = append(at, r.At)
	}
	for _, d := range s.Deliver {
		at = append(at, d.At)
	}
	for _, st := range s.Start {
		at = append(at, st.At)
	}
	for _, st := range s.Settle {
		at = append(at, st.At)
	}
	if s.Finish != nil {
		at = append(at, s.Finish.At)
	}
	return at
}

// seq is the number of the step's entry at an index.
func (s Step) seq(at int) int64 { return s.After + 1 + int64(at) }
