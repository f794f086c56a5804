package turn

import (
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Action is one thing to do. Those of one Next are independent of each other: they may be done at the same
// time, and when one cannot be done the others still stand. Each is safe to get again, from another Next,
// until the journal or the Facts show it.
type Action interface{ action() }

// AcceptInput appends input_accepted for a queued submission, or for one that joins the open one's turn.
type AcceptInput struct {
	Submission uuid.UUID
	Joins      bool
}

// StartTurn appends turn_started.
type StartTurn struct{ Attempt int32 }

// AskModel appends model_requested, then asks; the answer and its tool_called entries are one batch.
type AskModel struct {
	// Try is which try of this request it is, from 1.
	Try int32
	// Plain: the provider refused the request, so it is sent once more with the least that says the same.
	Plain bool
}

// AbortModel stops the model call if it runs here, and appends model_aborted.
type AbortModel struct {
	Reason    string
	Retryable bool
}

// Compact asks for a summary of the conversation up to a seq, and appends compaction.
type Compact struct{ UptoSeq int64 }

// TakeCall appends the tool_called of a call that a command asks for.
type TakeCall struct{ Call string }

// OpenApproval appends approval_requested and shows the card.
type OpenApproval struct{ Call string }

// DeliverDecision appends approval_decided.
type DeliverDecision struct {
	Call     string
	Decision Decision
	// Here: the decision is made by this action. Its row is still pending: the driver decides it there first, and
	// when a person was quicker it is theirs that is delivered.
	Here bool
}

// DropDecision takes note that a decision came too late to count.
type DropDecision struct{ Decision Decision }

// StartTool runs a call for the first time.
type StartTool struct {
	Call  string
	Class journalv1.EffectClass
	// Journaled: tool_started is committed before, by the compare-and-set of the effect; for an attached call with
	// its exec_started. Only a pure call that needs no approval goes without.
	Journaled bool
	// ApprovalID is the approval that the start consumes.
	ApprovalID string
	// Key is the idempotency key that the target is told.
	Key string
}

// RunPureAgain runs a call again that has no effect.
type RunPureAgain struct{ Call string }

// SendKeyedAgain sends a call again, with the key it was sent with.
type SendKeyedAgain struct{ Call, Key string }

// ResumeExec asks the machine for a command by its id: it is started if it never was, and its output goes on
// at the durable offset. Its end appends exec_exited or exec_lost, unless the fold has it, and tool_result.
type ResumeExec struct{ Call, Exec string }

// SignalExec ends a command: TERM, and KILL after the command's grace.
type SignalExec struct{ Call, Exec string }

// StopCall ends the work on a call here. Its result, if it still comes, counts.
type StopCall struct{ Call string }

// HoldExec stops the clock of a command while a person is asked about a call in it, or lets it go on.
type HoldExec struct {
	Exec string
	Hold bool
}

// SettleCall appends tool_result.
type SettleCall struct {
	Call    string
	Outcome journalv1.ToolOutcome
	Content string
}

// SettleUnknown appends a tool_result that says that the call may have had its effect.
type SettleUnknown struct {
	Call    string
	Content string
}

// Settle appends submission_settled.
type Settle struct {
	Submission uuid.UUID
	Outcome    journalv1.SettledOutcome
	Error      string
	// Unknown are the calls that may have had their effect.
	Unknown []string
	Usage   journal.Usage
}

// Park gives the session up until a decision, an input, a cancel or a deadline. When the store says that one
// has come meanwhile, the driver reads its Facts again.
type Park struct{}

// Release gives the session up.
type Release struct {
	Why Why
	// Tries is how often the model call has failed, when Why is BackingOff.
	Tries int
}

// Why is a reason of Release.
type Why string

// The reasons.
const (
	// Idle: nothing is left to do.
	Idle Why = "idle"
	// BackingOff: to be claimed again, by anyone, when the wait is over.
	BackingOff Why = "backing off"
	// Draining: to be claimed by another replica at once.
	Draining Why = "draining"
)

func (AcceptInput) action()     {}
func (StartTurn) action()       {}
func (AskModel) action()        {}
func (AbortModel) action()      {}
func (Compact) action()         {}
func (TakeCall) action()        {}
func (OpenApproval) action()    {}
func (DeliverDecision) action() {}
func (DropDecision) action()    {}
func (StartTool) action()       {}
func (RunPureAgain) action()    {}
func (SendKeyedAgain) action()  {}
func (ResumeExec) action()      {}
func (SignalExec) action()      {}
func (StopCall) action()        {}
func (HoldExec) action()        {}
func (SettleCall) action()      {}
func (SettleUnknown) action()   {}
func (Settle) action()          {}
func (Park) action()            {}
func (Release) action()         {}
