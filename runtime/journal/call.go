package journal

import (
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Call is one tool call: of an answer, or nested in a command that called back.
type Call struct {
	ID   string
	Tool string
	Seq  int64
	// ArgsSHA256 is the digest of the arguments that may run: the model's, or those that a person put in
	// their place.
	ArgsSHA256 []byte
	Class      journalv1.EffectClass
	Policy     journalv1.Policy
	// Block is the index of its block in the answer; -1 when it is nested.
	Block int32
	// Within is the exec that a nested call came from.
	Within   string
	State    CallState
	Approval *Approval
	// Key is the idempotency key of a keyed call.
	Key          string
	StartedSeq   int64
	StartedFence int64
	Exec         *Exec
	Result       *Result
}

// CallState is how far a call is.
type CallState string

// The states, in their order.
const (
	// CallIntended: the model asked for it; nothing was done.
	CallIntended CallState = "intended"
	// CallParked: a person is asked.
	CallParked CallState = "parked"
	// CallApproved: it may start, once, with the arguments of ArgsSHA256.
	CallApproved CallState = "approved"
	// CallRefused: it may not; its result is due.
	CallRefused CallState = "refused"
	// CallStarted: it may have had its effect.
	CallStarted CallState = "started"
	// CallSettled: it has its result.
	CallSettled CallState = "settled"
)

// Settled reports whether it has its result.
func (c *Call) Settled() bool { return c.State == CallSettled }

// Nested reports whether a command asked for it, not the model.
func (c *Call) Nested() bool { return c.Block < 0 }

// EditedArgs are the arguments that a person put in place of the model's, nil if none did.
func (c *Call) EditedArgs() []byte {
	if c.Approval == nil || c.Approval.Decision != journalv1.Decision_DECISION_EDITED {
		return nil
	}
	return c.Approval.Args
}

// Approval is a question to a person about one call, and its answer.
type Approval struct {
	ID  string
	Seq int64
	// ArgsSHA256 is what was shown.
	ArgsSHA256  []byte
	ExpiresAtMS int64
	// Decision is unspecified while the card is open.
	Decision journalv1.Decision
	By       string
	Reason   string
	Args     []byte
	// Consumed: the call was started with it. An approval is good for one start.
	Consumed bool
	Redacted bool
}

// Pending reports whether the card is open.
func (a *Approval) Pending() bool {
	return a.Decision == journalv1.Decision_DECISION_UNSPECIFIED && !a.Redacted
}

// Exec is a command that a call stands for.
type Exec struct {
	ID      string
	Machine string
	// Epoch is the machine's life at the time of the intent.
	Epoch string
	Fence int64
	State ExecState
	Code  int32
	// Signal ended it; 0 when it exited.
	Signal int32
	Cause  string
	// Ends are raw byte offsets.
	StdoutEnd int64
	StderrEnd int64
}

// ExecState is how far a command is.
type ExecState string

// The states.
const (
	// ExecIntended: from here on it may run.
	ExecIntended ExecState = "intended"
	ExecExited   ExecState = "exited"
	// ExecLost: its end will never be known, and it does not run.
	ExecLost ExecState = "lost"
	// ExecLeft: its call was closed without it.
	ExecLeft ExecState = "left"
)

// Result is what a call came to.
type Result struct {
	Seq         int64
	Outcome     journalv1.ToolOutcome
	Content     []byte
	Masked      int32
	Attachments []Attachment
	Redacted    bool
}

// ForkedContent is the result of a call that a fork cut off.
const ForkedContent = "cancelled (forked)"
