package turn

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// ending is why a submission, or a call, ends before it is done.
type ending struct {
	outcome journalv1.SettledOutcome
	// reason is the model_aborted's.
	reason  string
	message string
	// touchless: whatever is done about the calls may be what kills the owners, so nothing is.
	touchless bool
}

var theCommandEnded = ending{message: "the command that asked for it ended"}

func (d decider) ending() *ending {
	const failed, cancelled = journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED
	switch {
	case d.facts.Attempt > MaxAttempts:
		return &ending{
			outcome: failed, reason: journal.AbortedOwnerDied, touchless: true,
			message: fmt.Sprintf("given up: %d processes died over it", MaxAttempts),
		}
	case d.facts.Cancel:
		return &ending{outcome: cancelled, reason: journal.AbortedCancelled, message: "cancelled"}
	case d.interrupted():
		return &ending{outcome: cancelled, reason: journal.AbortedCancelled, message: "interrupted by a newer input"}
	case d.facts.DeadlinePassed:
		return &ending{outcome: failed, reason: journal.AbortedCancelled, message: "its deadline passed"}
	}
	return nil
}

func (d decider) interrupted() bool {
	for _, queued := range d.facts.Queued {
		if queued.Policy == Interrupt && !queued.Cancel {
			return true
		}
	}
	return false
}

// end closes what is open, each thing in its own way, and settles when nothing is.
func (d decider) end(e ending) []Action {
	switch d.state.Phase() {
	case journal.PhaseModelInFlight:
		return []Action{AbortModel{Reason: e.reason}}
	case journal.PhaseTorn:
		return []Action{AbortModel{Reason: journal.AbortedTorn}}
	}
	pending := d.state.Pending()
	if len(pending) == 0 {
		return d.settle(e.outcome, e.message)
	}
	var actions []Action
	for _, call := range pending {
		actions = append(actions, d.endCall(call, e)...)
	}
	return actions
}

func (d decider) endCall(call *journal.Call, e ending) []Action {
	closed := SettleCall{
		Call: call.ID, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED,
		Content: "Cancelled before it was done: " + e.message + ".",
	}
	switch call.State {
	case journal.CallParked:
		if decision, decided := d.decision(call); decided {
			return []Action{DeliverDecision{Call: call.ID, Decision: decision}}
		}
		return []Action{DeliverDecision{Call: call.ID, Here: true, Decision: Decision{
			ApprovalID: call.Approval.ID, Decision: journalv1.Decision_DECISION_CANCELLED, By: ByEnd, Reason: e.message,
		}}}
	case journal.CallRefused:
		return []Action{refusal(call)}
	case journal.CallIntended, journal.CallApproved:
		return d.stopAnd(call, closed)
	}
	unknown := SettleUnknown{Call: call.ID, Content: "Unknown: " + e.message + " while it ran. It may have happened, or may not. Check before you do it again."}
	switch {
	case e.touchless:
		return []Action{unknown}
	case call.Class == journalv1.EffectClass_EFFECT_CLASS_PURE:
		return d.stopAnd(call, closed)
	case d.facts.GraceOver:
		return []Action{unknown}
	case call.Exec != nil:
		return d.endExec(call)
	case !d.facts.Running[call.ID]:
		return []Action{unknown}
	case !d.facts.Stopped[call.ID]:
		return []Action{StopCall{Call: call.ID}}
	}
	return nil
}

// stopAnd closes a call without effect; what it would still come to is not waited for.
func (d decider) stopAnd(call *journal.Call, closed SettleCall) []Action {
	if d.facts.Running[call.ID] {
		return []Action{StopCall{Call: call.ID}, closed}
	}
	return []Action{closed}
}

// endExec signals a command and follows it to its end, so that its output and how it ended are known.
func (d decider) endExec(call *journal.Call) []Action {
	var actions []Action
	if !d.facts.Stopped[call.ID] {
		actions = append(actions, SignalExec{Call: call.ID, Exec: call.Exec.ID})
	}
	if !d.facts.Running[call.ID] {
		actions = append(actions, ResumeExec{Call: call.ID, Exec: call.Exec.ID})
	}
	return actions
}
