package turn_test

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// do carries an action out. done: the world has ended; died: the owner did, and knows nothing of its other actions.
func (w *world) do(action turn.Action) (done, died bool) {
	if w.dies(fmt.Sprintf("before %T", action)) {
		return false, true
	}
	switch a := action.(type) {
	case turn.Park:
		return false, w.park()
	case turn.Release:
		return w.release(a)
	case turn.AskModel:
		w.askModel(a)
	case turn.StartTool, turn.RunPureAgain, turn.SendKeyedAgain, turn.ResumeExec:
		return false, w.begin(a)
	case turn.SignalExec:
		w.facts.Stopped[a.Call] = true
	case turn.StopCall:
		w.facts.Stopped[a.Call] = true
	case turn.HoldExec:
		w.facts.Held[a.Exec] = a.Hold
	case turn.DropDecision:
		w.drop(a.Decision.ApprovalID)
	default:
		w.record(a)
	}
	return false, w.dies(fmt.Sprintf("after %T", action))
}

// record does what is an entry and nothing else.
func (w *world) record(action turn.Action) {
	switch a := action.(type) {
	case turn.AcceptInput:
		if a.Joins {
			w.facts.Joining = w.facts.Joining[1:]
		} else {
			w.facts.Queued = w.facts.Queued[1:]
		}
		w.append(a.Submission, &journalv1.Body{Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{
			Ordinal: int64(len(w.entries)), Parts: []*journalv1.Part{{Part: &journalv1.Part_Text{Text: "do it"}}},
		}}})
	case turn.StartTurn:
		w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_TurnStarted{TurnStarted: &journalv1.TurnStarted{Attempt: a.Attempt}}})
	case turn.AbortModel:
		w.facts.ModelRunning = false
		w.abort(a.Reason, a.Retryable)
	case turn.Compact:
		w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_Compaction{Compaction: &journalv1.Compaction{UptoSeq: a.UptoSeq, Summary: []byte("short")}}})
	case turn.TakeCall:
		called := w.asked[a.Call]
		if called == nil {
			w.t.Fatalf("call %s is taken, and nobody asks for it", a.Call)
		}
		called.CallId = a.Call
		delete(w.asked, a.Call)
		w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: called}})
		w.lookForCalls()
	case turn.OpenApproval:
		id := "a" + a.Call
		w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ApprovalRequested{ApprovalRequested: &journalv1.ApprovalRequested{
			ApprovalId: id, CallId: a.Call, ArgsSha256: w.state.Calls[a.Call].ArgsSHA256,
		}}})
		w.rows[id] = nil
	case turn.DeliverDecision:
		w.deliver(a)
	case turn.SettleCall:
		w.settleCall(a.Call, a.Outcome, a.Content)
	case turn.SettleUnknown:
		w.settleCall(a.Call, journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN, a.Content)
	case turn.Settle:
		w.settle(a)
	default:
		w.t.Fatalf("an action that nobody knows: %#v", action)
	}
}

func (w *world) deliver(a turn.DeliverDecision) {
	decision := a.Decision
	if a.Here {
		if row := w.rows[decision.ApprovalID]; row != nil {
			decision = *row
		} else {
			w.rows[decision.ApprovalID] = &decision
		}
	}
	w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ApprovalDecided{ApprovalDecided: &journalv1.ApprovalDecided{
		ApprovalId: decision.ApprovalID, CallId: a.Call, Decision: decision.Decision, By: decision.By, Args: decision.Args,
	}}})
	w.drop(decision.ApprovalID)
}

func (w *world) drop(approval string) {
	w.facts.Decisions = slices.DeleteFunc(w.facts.Decisions, func(d turn.Decision) bool { return d.ApprovalID == approval })
}

func (w *world) settleCall(call string, outcome journalv1.ToolOutcome, content string) {
	w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{CallId: call, Outcome: outcome, Content: []byte(content)}}})
	delete(w.facts.Running, call)
}

func (w *world) settle(a turn.Settle) {
	open := w.state.Open() != nil
	w.append(a.Submission, &journalv1.Body{Body: &journalv1.Body_SubmissionSettled{SubmissionSettled: &journalv1.SubmissionSettled{
		Outcome: a.Outcome, Error: a.Error, UnknownCalls: a.Unknown, Usage: a.Usage.Proto(),
	}}})
	w.facts.Queued = slices.DeleteFunc(w.facts.Queued, func(q turn.Queued) bool { return q.ID == a.Submission })
	if open {
		// What did not come to join is queued.
		for _, id := range w.facts.Joining {
			w.facts.Queued = append(w.facts.Queued, turn.Queued{ID: id, Policy: turn.Queue})
		}
		w.facts.Joining = nil
		w.facts.Cancel, w.facts.DeadlinePassed, w.facts.GraceOver, w.facts.Attempt = false, false, false, 1
	}
}

// begin starts or resumes the work on a call; the owner may die between the entry and the effect.
func (w *world) begin(action turn.Action) (died bool) {
	var id, key string
	switch a := action.(type) {
	case turn.StartTool:
		id, key = a.Call, a.Key
		if a.Journaled {
			w.start(a)
		}
	case turn.RunPureAgain:
		id = a.Call
	case turn.SendKeyedAgain:
		id, key = a.Call, a.Key
	case turn.ResumeExec:
		id = a.Call
	}
	if w.dies("before the effect") {
		return true
	}
	w.facts.Running[id] = true
	call := w.state.Calls[id]
	w.mayHappen(call)
	switch call.Class {
	case journalv1.EffectClass_EFFECT_CLASS_KEYED:
		// The target drops repeats.
		if key != call.Key || key == "" {
			w.t.Fatalf("call %s was sent under %q, is sent under %q", id, call.Key, key)
		}
		w.effects[id] = 1
	case journalv1.EffectClass_EFFECT_CLASS_ATTACHED:
		// The machine starts an id once.
		w.effects[id] = 1
	default:
		w.effects[id]++
	}
	return w.dies("after the effect")
}

// mayHappen: an effect comes after its intent, and a gated one after its approval.
func (w *world) mayHappen(call *journal.Call) {
	if call.Class != journalv1.EffectClass_EFFECT_CLASS_PURE && call.State != journal.CallStarted {
		w.t.Fatalf("call %s, %s, has its effect while %s", call.ID, call.Class, call.State)
	}
	if call.Policy == journalv1.Policy_POLICY_ALLOW {
		return
	}
	row := w.rows["a"+call.ID]
	if row == nil || row.Decision != journalv1.Decision_DECISION_APPROVED && row.Decision != journalv1.Decision_DECISION_EDITED {
		w.t.Fatalf("call %s has its effect, and its approval is %+v", call.ID, row)
	}
}

func (w *world) start(a turn.StartTool) {
	batch := []*journalv1.Body{{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{
		CallId: a.Call, IdempotencyKey: a.Key, ApprovalId: a.ApprovalID,
	}}}}
	if a.Class == journalv1.EffectClass_EFFECT_CLASS_ATTACHED {
		batch = append(batch, &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{
			CallId: a.Call, ExecId: fmt.Sprintf("x%d", w.state.Seq), Machine: "m", Epoch: "e", Fence: w.facts.Fence,
		}}})
	}
	w.append(uuid.Nil, batch...)
}

// park is refused while something is undelivered; else the session sleeps until somebody does something.
func (w *world) park() (died bool) {
	if len(w.facts.Decisions)+len(w.facts.Joining)+len(w.facts.Asked) > 0 {
		return false
	}
	w.claim()
	switch {
	case w.maybe("cancelled while parked", 10):
		w.facts.Cancel = true
	case w.inputs > 0 && w.maybe("input while parked", 30):
		w.send()
		w.decideOne()
	default:
		w.decideOne()
	}
	return true
}

func (w *world) release(a turn.Release) (done, died bool) {
	if a.Why == turn.Idle {
		if w.inputs == 0 && len(w.facts.Queued) == 0 {
			return true, false
		}
		w.send()
	}
	w.claim()
	return false, true
}
