package journal

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Fold is the state after the entries, in order.
func Fold(entries []Entry) (*State, error) {
	state := new(State)
	for _, entry := range entries {
		if err := state.Apply(entry); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// Apply adds one entry. When it returns an error, an *OrderError, *UnknownError or *CorruptError, the state is as it
// was. The state keeps byte slices of the entry: its body may not be changed afterwards.
func (s *State) Apply(entry Entry) error {
	if err := check(entry.Kind, entry.Body); err != nil {
		return err
	}
	if reason := s.misplaced(entry); reason != "" {
		return s.refuse(entry, reason)
	}
	if reason := s.fold(entry); reason != "" {
		return s.refuse(entry, reason)
	}
	s.Session, s.Seq, s.Fence = entry.Session, entry.Seq, entry.Fence
	return nil
}

func (s *State) refuse(entry Entry, reason string) error {
	return &OrderError{Session: entry.Session, Seq: entry.Seq, Kind: entry.Kind, Call: entry.Call, Reason: reason}
}

// misplaced holds what is true of every entry.
func (s *State) misplaced(entry Entry) string {
	fork := entry.Kind == KindSessionForked
	switch {
	case entry.Session == uuid.Nil:
		return "it has no session"
	case entry.Seq != s.Seq+1:
		return fmt.Sprintf("the one before is %d", s.Seq)
	case s.Seq == 0 && entry.Kind != KindSessionCreated:
		return "a session begins with session_created"
	case s.Seq > 0 && entry.Kind == KindSessionCreated:
		return "the session exists"
	case s.Seq > 0 && !fork && entry.Session != s.Session:
		return "it belongs to another session"
	case !fork && entry.Fence < s.Fence:
		return fmt.Sprintf("its fence %d is older than %d of the one before", entry.Fence, s.Fence)
	case entry.Call != CallOf(entry.Body) && entry.Kind != KindRedaction:
		return "its call is not the body's"
	case s.torn() && !mayFollowTorn(entry.Kind):
		return "calls of the answer before are missing"
	}
	return ""
}

func mayFollowTorn(kind Kind) bool {
	return kind == KindToolCalled || kind == KindModelAborted || kind == KindSessionForked
}

// fold changes the state, or says why the entry is impossible and changes nothing.
func (s *State) fold(entry Entry) string {
	switch b := entry.Body.GetBody().(type) {
	case *journalv1.Body_SessionCreated:
		s.Agent = b.SessionCreated.GetAgent()
	case *journalv1.Body_SessionForked:
		return s.fork(entry, b.SessionForked)
	case *journalv1.Body_InputAccepted:
		return s.acceptInput(entry, b.InputAccepted)
	case *journalv1.Body_TurnStarted:
		return s.startTurn(entry, b.TurnStarted)
	case *journalv1.Body_ModelRequested:
		return s.requestModel(entry, b.ModelRequested)
	case *journalv1.Body_ModelDelta:
		return s.addDelta(b.ModelDelta)
	case *journalv1.Body_ModelCompleted:
		return s.completeModel(entry, b.ModelCompleted)
	case *journalv1.Body_ModelAborted:
		return s.abortModel(entry, b.ModelAborted)
	case *journalv1.Body_ToolCalled:
		return s.callTool(entry, b.ToolCalled)
	case *journalv1.Body_ApprovalRequested:
		return s.requestApproval(entry, b.ApprovalRequested)
	case *journalv1.Body_ApprovalDecided:
		return s.decideApproval(b.ApprovalDecided)
	case *journalv1.Body_ToolStarted:
		return s.startTool(entry, b.ToolStarted)
	case *journalv1.Body_ExecStarted:
		return s.startExec(b.ExecStarted)
	case *journalv1.Body_ExecExited:
		return s.exitExec(b.ExecExited)
	case *journalv1.Body_ExecLost:
		return s.loseExec(b.ExecLost)
	case *journalv1.Body_ToolResult:
		return s.settleCall(entry, b.ToolResult)
	case *journalv1.Body_Compaction:
		return s.compact(entry, b.Compaction)
	case *journalv1.Body_Redaction:
		return s.redact(entry, b.Redaction)
	case *journalv1.Body_SubmissionSettled:
		return s.settle(entry, b.SubmissionSettled)
	default:
		return "this build has no rule for it"
	}
	return ""
}
