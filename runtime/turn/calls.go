package turn

import (
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// toolsPending goes through the calls one by one: they are independent of each other.
func (d decider) toolsPending() []Action {
	pending := d.state.Pending()
	waiting := d.waiting(pending)
	room := map[bool]int{false: MaxRunning, true: MaxRunning}
	for id := range d.facts.Running {
		room[d.nested(id)]--
	}
	actions := d.asked(pending)
	parked := 0
	for _, call := range pending {
		if waiting[call.ID] {
			parked++
		}
		for _, action := range d.call(call, waiting) {
			if begins(action) {
				if room[call.Nested()] <= 0 {
					continue
				}
				room[call.Nested()]--
			}
			actions = append(actions, action)
		}
	}
	if len(actions) == 0 && parked == len(pending) {
		return []Action{Park{}}
	}
	return actions
}

func (d decider) nested(id string) bool {
	call := d.state.Calls[id]
	return call != nil && call.Nested()
}

// asked takes what running commands ask for. What a command asks for that has ended is closed with its end.
func (d decider) asked(pending []*journal.Call) []Action {
	open := 0
	for _, call := range pending {
		if call.Nested() {
			open++
		}
	}
	var actions []Action
	for _, asked := range d.facts.Asked {
		parent := d.state.Calls[d.state.Execs[asked.Exec]]
		if d.state.Calls[asked.Call] != nil || parent == nil || parent.State != journal.CallStarted || open >= MaxNested {
			continue
		}
		actions = append(actions, TakeCall{Call: asked.Call})
		open++
	}
	return actions
}

// waiting are the calls that a person holds up: those with an open card, and commands in which one is open.
func (d decider) waiting(pending []*journal.Call) map[string]bool {
	waiting := map[string]bool{}
	for _, call := range pending {
		if call.State != journal.CallParked {
			continue
		}
		waiting[call.ID] = true
		if call.Nested() && !d.facts.Ended[call.Within] {
			waiting[d.state.Execs[call.Within]] = true
		}
	}
	return waiting
}

func begins(action Action) bool {
	switch action.(type) {
	case StartTool, RunPureAgain, SendKeyedAgain, ResumeExec:
		return true
	}
	return false
}

func (d decider) call(call *journal.Call, waiting map[string]bool) []Action {
	if d.orphaned(call) {
		return d.endCall(call, theCommandEnded)
	}
	switch call.State {
	case journal.CallIntended:
		if call.Policy == journalv1.Policy_POLICY_ASK {
			return []Action{OpenApproval{Call: call.ID}}
		}
		return d.start(call)
	case journal.CallParked:
		return d.card(call)
	case journal.CallApproved:
		return d.start(call)
	case journal.CallRefused:
		return []Action{refusal(call)}
	case journal.CallStarted:
		return d.started(call, waiting[call.ID])
	}
	return nil
}

// orphaned: the command that asked for the call has its result, so nobody would get the call's.
func (d decider) orphaned(call *journal.Call) bool {
	if !call.Nested() {
		return false
	}
	parent := d.state.Calls[d.state.Execs[call.Within]]
	return parent == nil || parent.Settled()
}

func (d decider) start(call *journal.Call) []Action {
	if d.facts.Running[call.ID] {
		return nil
	}
	start := StartTool{
		Call: call.ID, Class: call.Class,
		Journaled: call.Class != journalv1.EffectClass_EFFECT_CLASS_PURE || call.Approval != nil,
	}
	if call.Approval != nil {
		start.ApprovalID = call.Approval.ID
	}
	if call.Class == journalv1.EffectClass_EFFECT_CLASS_KEYED {
		start.Key = IdempotencyKey(d.state.Session, call.ID)
	}
	return []Action{start}
}

// IdempotencyKey is what a keyed call's target knows it by: the same for each time it is sent, and for no
// other call.
func IdempotencyKey(session uuid.UUID, call string) string { return session.String() + "/" + call }

// card delivers what was decided, or answers in a person's place when an input says so.
func (d decider) card(call *journal.Call) []Action {
	if decision, decided := d.decision(call); decided {
		return []Action{DeliverDecision{Call: call.ID, Decision: decision}}
	}
	answered := len(d.facts.Joining) > 0
	for _, queued := range d.facts.Queued {
		answered = answered || queued.Policy == Answer && !queued.Cancel
	}
	if !answered {
		return nil
	}
	return []Action{DeliverDecision{Call: call.ID, Here: true, Decision: Decision{
		ApprovalID: call.Approval.ID, Decision: journalv1.Decision_DECISION_DENIED,
		By: ByInput, Reason: "the user wrote something else instead",
	}}}
}

func (d decider) decision(call *journal.Call) (Decision, bool) {
	for _, decision := range d.facts.Decisions {
		if decision.ApprovalID == call.Approval.ID {
			return decision, true
		}
	}
	return Decision{}, false
}

func refusal(call *journal.Call) SettleCall {
	denied := SettleCall{Call: call.ID, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_DENIED}
	switch {
	case call.Approval == nil:
		denied.Content = "Denied: this agent may not do that."
	case call.Approval.Decision == journalv1.Decision_DECISION_EXPIRED:
		denied.Content = "Denied: nobody approved it in time. It was not done."
	case call.Approval.Decision == journalv1.Decision_DECISION_CANCELLED:
		denied.Outcome = journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED
		denied.Content = "Cancelled before anybody decided. It was not done."
	case call.Approval.Reason != "":
		denied.Content = "Denied: " + call.Approval.Reason + ". It was not done."
	default:
		denied.Content = "Denied by a person. It was not done."
	}
	return denied
}

// unknownContent tells the model what nobody knows.
const unknownContent = "Unknown: this was started, and the process that ran it died before it could record the outcome. It may have happened, or may not. It was not repeated. Check before you do it again."

func (d decider) started(call *journal.Call, waiting bool) []Action {
	if call.Exec != nil {
		return d.exec(call, waiting)
	}
	if d.facts.Running[call.ID] {
		return nil
	}
	switch call.Class {
	case journalv1.EffectClass_EFFECT_CLASS_PURE:
		return []Action{RunPureAgain{Call: call.ID}}
	case journalv1.EffectClass_EFFECT_CLASS_KEYED:
		return []Action{SendKeyedAgain{Call: call.ID, Key: call.Key}}
	}
	// An attached call without its exec_started cannot be asked for, so it is as dark as an opaque one.
	return []Action{SettleUnknown{Call: call.ID, Content: unknownContent}}
}

func (d decider) exec(call *journal.Call, waiting bool) []Action {
	var actions []Action
	if waiting != d.facts.Held[call.Exec.ID] {
		actions = append(actions, HoldExec{Exec: call.Exec.ID, Hold: waiting})
	}
	if call.Exec.State != journal.ExecIntended {
		// Its end is journaled with its result; without it the answer is asked for again.
		waiting = false
	}
	if !waiting && !d.facts.Running[call.ID] {
		actions = append(actions, ResumeExec{Call: call.ID, Exec: call.Exec.ID})
	}
	return actions
}
