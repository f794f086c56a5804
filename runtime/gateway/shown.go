package gateway

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

func idText(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func shownSession(s store.Session) *runtimev1.Session {
	out := &runtimev1.Session{
		SessionId: s.ID.String(), Agent: s.Agent, State: runtimev1.SessionState(s.State), ParentId: idText(s.Parent), CreatedAtMs: millis(s.CreatedAt),
	}
	if s.Parent != uuid.Nil {
		out.ParentSeq = s.ParentSeq
	}
	return out
}

func shownSubmission(s store.Submission) *runtimev1.Submission {
	out := &runtimev1.Submission{
		SubmissionId: s.ID.String(), SessionId: s.Session.String(), IdempotencyKey: s.Key, Ordinal: s.Ordinal,
		CancelRequested: s.Cancelled, InputSeq: s.InputSeq, SettledSeq: s.SettledSeq, CreatedAtMs: millis(s.CreatedAt),
		Attempts: int32(min(s.Attempts, math.MaxInt32)),
	}
	switch s.State {
	case store.SubmissionQueued:
		out.State = runtimev1.SubmissionState_SUBMISSION_STATE_QUEUED
	case store.SubmissionRunning, store.SubmissionTerminalizing:
		out.State = runtimev1.SubmissionState_SUBMISSION_STATE_RUNNING
	case store.SubmissionJoined:
		out.State = runtimev1.SubmissionState_SUBMISSION_STATE_JOINED
	case store.SubmissionSettled:
		out.State, out.Outcome = runtimev1.SubmissionState_SUBMISSION_STATE_SETTLED, s.Outcome
	}
	return out
}

func shownApproval(a store.Approval) *runtimev1.Approval {
	return &runtimev1.Approval{
		ApprovalId: a.ID.String(), SessionId: a.Session.String(), SubmissionId: idText(a.Submission), CallId: a.Call, Summary: a.Summary,
		ArgsSha256: a.ArgsSHA256, State: runtimev1.ApprovalState(a.State), RequestedAtMs: millis(a.RequestedAt), ExpiresAtMs: millis(a.ExpiresAt),
		DecidedBy: a.By, Reason: a.Reason, EditedArgs: a.EditedArgs, Used: a.Used,
	}
}

// shownBlock reads a provider's block. What cannot be read is shown as something that is there.
func shownBlock(provider string, b *journalv1.Block) *runtimev1.ShownBlock {
	out := &runtimev1.ShownBlock{Kind: b.GetKind()}
	read, err := model.Decode(provider, b.GetRaw())
	if err != nil || !utf8.ValidString(read.Text) || !utf8.Valid(read.Args) {
		return out
	}
	out.Text, out.CallId, out.Tool, out.Args = read.Text, read.CallID, read.Tool, string(read.Args)
	return out
}

func shownAll[From any, To any](from []From, show func(From) To) []To {
	to := make([]To, 0, len(from))
	for _, f := range from {
		to = append(to, show(f))
	}
	return to
}
