package turn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

const (
	// MaxAttempts is how many owners may die over one submission before it is given up.
	MaxAttempts = 5
	// MaxRunning is how many calls of a session run at once; the others of an answer wait. Calls that commands ask for are
	// counted apart: a command holds its place while it waits for one.
	MaxRunning = 16
	// MaxNested is how many calls that commands ask for are open at once; more are not taken.
	MaxNested = 32
)

// Next is what the owner does now; nothing means that it waits for what runs.
func Next(s *journal.State, f Facts) []Action {
	// A lease that may be over: another owner may have begun. Its appends would be refused anyway.
	if !f.Trusted {
		return nil
	}
	d := decider{state: s, facts: f, open: s.Open()}
	if d.open == nil {
		return d.idle()
	}
	actions := d.turn()
	if f.Draining && !last(actions) {
		return d.drain()
	}
	return append(d.late(), actions...)
}

type decider struct {
	state *journal.State
	facts Facts
	open  *journal.Submission
}

func (d decider) idle() []Action {
	for _, queued := range d.facts.Queued {
		if queued.Cancel {
			return []Action{Settle{
				Submission: queued.ID, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED,
				Error: "cancelled before it began",
			}}
		}
	}
	switch {
	case d.facts.Draining && len(d.facts.Queued) > 0:
		return []Action{Release{Why: Draining}}
	case len(d.facts.Queued) > 0:
		return []Action{AcceptInput{Submission: d.facts.Queued[0].ID}}
	}
	return append(d.late(), Release{Why: Idle})
}

func (d decider) turn() []Action {
	if end := d.ending(); end != nil && !d.state.Answered {
		return d.end(*end)
	}
	if d.facts.Attempt > d.open.Attempt && !d.state.Answered {
		return []Action{StartTurn{Attempt: d.facts.Attempt}}
	}
	if d.state.BetweenSteps() && len(d.facts.Joining) > 0 {
		return []Action{AcceptInput{Submission: d.facts.Joining[0], Joins: true}}
	}
	switch d.state.Phase() {
	case journal.PhaseNeedModel:
		return d.needModel()
	case journal.PhaseModelInFlight:
		return d.modelInFlight()
	case journal.PhaseTorn:
		return []Action{AbortModel{Reason: journal.AbortedTorn, Retryable: true}}
	case journal.PhaseToolsPending:
		return d.toolsPending()
	case journal.PhaseSettling:
		return d.settle(journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED, "")
	}
	return nil
}

func (d decider) modelInFlight() []Action {
	if d.facts.ModelRunning {
		return nil
	}
	// Nothing was acted on: effects start from committed answers only. Asking again costs tokens, and text
	// that viewers saw is not sent back.
	return []Action{AbortModel{Reason: journal.AbortedOwnerDied, Retryable: true}}
}

func (d decider) needModel() []Action {
	trouble := d.state.Trouble
	if trouble == nil {
		return []Action{AskModel{Try: 1}}
	}
	again := AskModel{Try: int32(trouble.Failures) + 1, Plain: trouble.Refusals > 0}
	failed := func() []Action {
		return d.settle(journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, modelError(trouble))
	}
	switch reason := trouble.Reason; {
	case trouble.Ours():
		return []Action{again}
	case trouble.Failures >= model.MaxAttempts:
		return failed()
	case trouble.Retryable && trouble.Fence == d.facts.Fence:
		return []Action{Release{Why: BackingOff, Tries: trouble.Failures}}
	case trouble.Retryable:
		return []Action{again}
	case reason == string(model.TooLong):
		if upto, can := d.compactable(); can {
			return []Action{Compact{UptoSeq: upto}}
		}
		return failed()
	case reason == string(model.Refused) && trouble.Refusals < 2:
		return []Action{again}
	}
	return failed()
}

func modelError(trouble *journal.Trouble) string {
	text := fmt.Sprintf("the model gave no answer (%s, tried %d times)", trouble.Reason, trouble.Failures)
	if trouble.Message != "" {
		text += ": " + trouble.Message
	}
	return text
}

// compactable is the last item that a summary may cover: all but the newest answer with its results, and the
// newest input. It never covers the same again.
func (d decider) compactable() (int64, bool) {
	items := d.state.Conversation
	last := len(items) - 1
	for last >= 0 && items[last].Answer == nil && items[last].Input == nil {
		last--
	}
	// Results have seqs of their own: the summary reaches to just before what stays.
	if last < 1 || items[last-1].Summary != nil {
		return 0, false
	}
	return items[last].Seq - 1, true
}

func (d decider) settle(outcome journalv1.SettledOutcome, message string) []Action {
	return []Action{Settle{
		Submission: d.open.ID, Outcome: outcome, Error: message, Unknown: d.unknown(), Usage: d.open.Usage,
	}}
}

// unknown lists the submission's calls that may have had their effect, in their order.
func (d decider) unknown() []string {
	var calls []*journal.Call
	for _, call := range d.state.Calls {
		if call.Seq > d.open.InputSeq && call.Result != nil && call.Result.Outcome == journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN {
			calls = append(calls, call)
		}
	}
	slices.SortFunc(calls, func(a, b *journal.Call) int { return cmp.Compare(a.Seq, b.Seq) })
	ids := make([]string, 0, len(calls))
	for _, call := range calls {
		ids = append(ids, call.ID)
	}
	return ids
}

// late takes note of decisions whose card is closed already. The store does not park a session that has
// undelivered ones.
func (d decider) late() []Action {
	open := map[string]bool{}
	for _, call := range d.state.Pending() {
		if call.State == journal.CallParked {
			open[call.Approval.ID] = true
		}
	}
	var actions []Action
	for _, decision := range d.facts.Decisions {
		if !open[decision.ApprovalID] {
			actions = append(actions, DropDecision{Decision: decision})
		}
	}
	return actions
}

// drain gives the session to another replica at the next entry. Commands go on by themselves, and what has no
// effect is begun anew; only a call that would become unknown is waited for.
func (d decider) drain() []Action {
	if d.state.Phase() == journal.PhaseModelInFlight {
		return []Action{AbortModel{Reason: journal.AbortedReleased, Retryable: true}}
	}
	for _, call := range d.state.Pending() {
		atStake := call.Class == journalv1.EffectClass_EFFECT_CLASS_OPAQUE || call.Class == journalv1.EffectClass_EFFECT_CLASS_KEYED
		if atStake && d.facts.Running[call.ID] && !d.facts.GraceOver {
			return nil
		}
	}
	return []Action{Release{Why: Draining}}
}

// last reports whether nothing of this turn is left for another replica.
func last(actions []Action) bool {
	if len(actions) != 1 {
		return false
	}
	switch actions[0].(type) {
	case Park, Settle:
		return true
	}
	return false
}
