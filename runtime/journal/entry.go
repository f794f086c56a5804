package journal

import (
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Entry is one row of the journal.
type Entry struct {
	Session uuid.UUID
	// Seq orders the session's entries; nothing else does.
	Seq int64
	// Fence of the owner that wrote it.
	Fence int64
	Kind  Kind
	// Submission that it belongs to; uuid.Nil when it belongs to the session.
	Submission uuid.UUID
	// Call that it is about, empty when none. It survives a redaction of the body.
	Call string
	// At is the database's time of the append. It is shown to people and decides nothing.
	At   time.Time
	Body *journalv1.Body
}

// CallOf is the call that a body is about: what belongs in Entry.Call.
func CallOf(body *journalv1.Body) string {
	switch b := body.GetBody().(type) {
	case *journalv1.Body_ToolCalled:
		return b.ToolCalled.GetCallId()
	case *journalv1.Body_ApprovalRequested:
		return b.ApprovalRequested.GetCallId()
	case *journalv1.Body_ApprovalDecided:
		return b.ApprovalDecided.GetCallId()
	case *journalv1.Body_ToolStarted:
		return b.ToolStarted.GetCallId()
	case *journalv1.Body_ExecStarted:
		return b.ExecStarted.GetCallId()
	case *journalv1.Body_ExecExited:
		return b.ExecExited.GetCallId()
	case *journalv1.Body_ExecLost:
		return b.ExecLost.GetCallId()
	case *journalv1.Body_ToolResult:
		return b.ToolResult.GetCallId()
	}
	return ""
}
