package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// maxSummary bounds what a card shows, in bytes.
const maxSummary = 16 << 10

// openApproval asks a person about a call. What is shown is all that may run.
func (s *session) openApproval(a turn.OpenApproval) error {
	call := s.state.Calls[a.Call]
	args, err := s.args(call)
	if err != nil {
		return err
	}
	id := store.NewID()
	step := store.Step{Request: []store.Request{{
		Approval: id, Call: call.ID, Submission: s.state.Open().ID, ArgsSHA256: call.ArgsSHA256,
		Summary: s.summary(call.Tool, s.shown(call, args)), ExpiresIn: s.options.CardTime,
	}}}
	return s.commit(step, &journalv1.Body{Body: &journalv1.Body_ApprovalRequested{ApprovalRequested: &journalv1.ApprovalRequested{
		ApprovalId: id.String(), CallId: call.ID, ArgsSha256: call.ArgsSHA256,
		// For people to read: the row decides.
		ExpiresAtMs: time.Now().Add(s.options.CardTime).UnixMilli(),
	}}})
}

// summary is what a card shows: a JSON object with tool and args, or with the beginning of args' text.
func (s *session) summary(tool string, args json.RawMessage) []byte {
	clean, _ := s.mask.Redact(args)
	var shown any = json.RawMessage(clean)
	if len(clean) > maxSummary || !json.Valid(clean) {
		shown = string(bytes.ToValidUTF8(clean[:min(len(clean), maxSummary)], []byte("\uFFFD")))
	}
	summary, err := json.Marshal(map[string]any{"tool": tool, "args": shown})
	if err != nil {
		return []byte("{}")
	}
	return summary
}

// decisionOf reads a row.
func decisionOf(a store.Approval) turn.Decision {
	d := turn.Decision{ApprovalID: a.ID.String(), By: a.By, Reason: a.Reason}
	switch {
	case a.State == store.ApprovalApproved && a.EditedArgs != nil:
		d.Decision, d.Args = journalv1.Decision_DECISION_EDITED, a.EditedArgs
	case a.State == store.ApprovalApproved:
		d.Decision = journalv1.Decision_DECISION_APPROVED
	case a.State == store.ApprovalExpired:
		d.Decision = journalv1.Decision_DECISION_EXPIRED
	case a.State == store.ApprovalCancelled:
		d.Decision = journalv1.Decision_DECISION_CANCELLED
	default:
		d.Decision = journalv1.Decision_DECISION_DENIED
	}
	return d
}

// deliver tells the turn a decision. One that is made here is made in the row first; when a person was quicker, theirs
// counts.
func (s *session) deliver(a turn.DeliverDecision) error {
	decision := a.Decision
	id, err := uuid.Parse(decision.ApprovalID)
	if err != nil {
		return err
	}
	if a.Here {
		if decision, err = s.decideHere(id, decision); err != nil {
			return err
		}
	}
	body := &journalv1.Body{Body: &journalv1.Body_ApprovalDecided{ApprovalDecided: &journalv1.ApprovalDecided{
		ApprovalId: decision.ApprovalID, CallId: a.Call, Decision: decision.Decision, By: decision.By,
		Reason: decision.Reason, Args: decision.Args,
	}}}
	if err := s.commit(store.Step{Deliver: []store.Deliver{{Approval: id}}}, body); err != nil {
		return err
	}
	for i, told := range s.news.Decisions {
		if told.ID == id {
			s.news.Decisions = append(s.news.Decisions[:i:i], s.news.Decisions[i+1:]...)
			break
		}
	}
	return nil
}

func (s *session) decideHere(id uuid.UUID, decision turn.Decision) (turn.Decision, error) {
	row, err := s.options.Store.Decide(s.ctx, store.Decision{
		Tenant: s.claim.Tenant, Approval: id, Key: decision.By + "/" + id.String(), By: decision.By, Reason: decision.Reason,
	})
	quicker := new(store.DecidedError)
	switch {
	case errors.As(err, &quicker):
		return decisionOf(quicker.Approval), nil
	case errors.Is(err, store.ErrExpired):
		return decisionOf(row), nil
	}
	return decision, err
}
