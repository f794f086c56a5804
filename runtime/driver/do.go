package driver

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// did is what came of an action.
type did int

const (
	// nothing changed: the same action will come again.
	nothing did = iota
	// done: the state or the facts have changed.
	done
	// gone: the session was given up.
	gone
)

// do carries an action out, or begins to.
func (s *session) do(action turn.Action) (did, error) {
	switch a := action.(type) {
	case turn.Park:
		return s.park()
	case turn.Release:
		return s.release(a)
	case turn.Compact:
		return s.compact(a)
	case turn.DropDecision:
		return s.drop(a)
	case turn.StartTool:
		return s.startTool(a)
	case turn.HoldExec:
		return s.hold(a)
	}
	return done, s.carryOut(action)
}

func (s *session) carryOut(action turn.Action) error {
	switch a := action.(type) {
	case turn.AcceptInput:
		return s.accept(a)
	case turn.StartTurn:
		return s.append(turnStarted(a.Attempt))
	case turn.AskModel:
		return s.ask(a)
	case turn.AbortModel:
		return s.abort(a)
	case turn.TakeCall:
		return s.takeCall(a.Call)
	case turn.OpenApproval:
		return s.openApproval(a)
	case turn.DeliverDecision:
		return s.deliver(a)
	case turn.RunPureAgain:
		return s.work(job{call: a.Call, again: true})
	case turn.SendKeyedAgain:
		return s.work(job{call: a.Call, key: a.Key, again: true})
	case turn.ResumeExec:
		return s.work(job{call: a.Call, again: true})
	case turn.SignalExec:
		s.signal(a)
	case turn.StopCall:
		s.stopCall(a.Call)
	case turn.SettleCall:
		return s.settleCall(a.Call, a.Outcome, []byte(a.Content))
	case turn.SettleUnknown:
		return s.settleCall(a.Call, journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN, []byte(a.Content))
	case turn.Settle:
		return s.settle(a)
	default:
		return fmt.Errorf("an action that this driver does not know: %T", action)
	}
	return nil
}
