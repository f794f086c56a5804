package journal

import (
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// RedactedContent is what a model and people see where an entry was erased.
const RedactedContent = "[redacted]"

// Erasable reports whether entries of a kind may be replaced by a redaction: those that hold somebody's
// words. The others say what happened, and the fold needs them.
func Erasable(kind Kind) bool {
	switch kind {
	case KindInputAccepted, KindModelDelta, KindModelCompleted, KindApprovalDecided, KindToolResult, KindCompaction:
		return true
	}
	return false
}

// redact does what the erased entry did, as far as that can be known without it: its columns are kept.
func (s *State) redact(entry Entry, redaction *journalv1.Redaction) string {
	kind := Kind(redaction.GetKind())
	if !Erasable(kind) {
		return "entries of kind " + kind.String() + " cannot be erased"
	}
	if reason := s.fill(entry, kind); reason != "" {
		return reason
	}
	s.Redacted++
	return ""
}

func (s *State) fill(entry Entry, kind Kind) string {
	switch kind {
	case KindInputAccepted:
		ordinal := s.lastOrdinal() + 1
		if reason := s.mayAccept(entry, ordinal); reason != "" {
			return reason
		}
		s.begin(entry, ordinal, &Input{Submission: entry.Submission, Redacted: true})
	case KindModelDelta:
		return s.addDelta(nil)
	case KindModelCompleted:
		if s.Request == nil {
			return "no model call is in flight"
		}
		// Calls may follow; ask takes them.
		s.answer(entry, &Answer{Provider: s.Request.Provider, Model: s.Request.Model, Redacted: true})
	case KindApprovalDecided:
		return s.fillDecision(s.Calls[entry.Call])
	case KindToolResult:
		return s.fillResult(entry, s.Calls[entry.Call])
	case KindCompaction:
		// What it covered is not known any more: all of it is the conversation again.
	}
	return ""
}

// fillDecision leaves open whether the call may start: what follows will tell.
func (s *State) fillDecision(call *Call) string {
	if call == nil || call.State != CallParked {
		return "the approval was not requested"
	}
	call.State, call.Approval.Redacted = CallApproved, true
	return ""
}

func (s *State) fillResult(entry Entry, call *Call) string {
	switch {
	case call == nil:
		return "the call does not exist"
	case call.Settled():
		return "the call has its result"
	}
	outcome := journalv1.ToolOutcome_TOOL_OUTCOME_OK
	if call.State == CallRefused {
		outcome = journalv1.ToolOutcome_TOOL_OUTCOME_DENIED
	}
	call.close(&Result{Seq: entry.Seq, Outcome: outcome, Content: []byte(RedactedContent), Redacted: true})
	return ""
}
