package driver

import (
	"strings"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// commit appends bodies of the open submission, with the rows that a step changes, and folds what was committed. It is the
// only way into the journal: what a secret could be in is masked here.
func (s *session) commit(step store.Step, bodies ...*journalv1.Body) error {
	submission := uuid.Nil
	if open := s.state.Open(); open != nil {
		submission = open.ID
	}
	return s.commitFor(submission, step, bodies...)
}

func (s *session) commitFor(submission uuid.UUID, step store.Step, bodies ...*journalv1.Body) error {
	step.After = s.state.Seq
	for _, body := range bodies {
		s.masked(body)
		step.Entries = append(step.Entries, journal.Entry{Submission: submission, Body: body})
	}
	if len(bodies) > 0 && !step.Async && len(s.dropped) > 0 {
		step.Deliver = append(step.Deliver, s.dropped...)
	}
	ctx, end := s.commitSpan(step)
	committed, err := s.options.Store.Commit(ctx, s.claim, step)
	end(err)
	if err != nil {
		return err
	}
	if len(bodies) > 0 && !step.Async {
		s.dropped = nil
	}
	for _, entry := range committed.Entries {
		if err := s.state.Apply(entry); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) append(bodies ...*journalv1.Body) error { return s.commit(store.Step{}, bodies...) }

// masked hides secrets in what was said by anybody but the model: its blocks must come back byte for byte, and it was never
// told a secret.
func (s *session) masked(body *journalv1.Body) {
	text := func(p *string) { *p = s.maskedText(*p) }
	switch b := body.GetBody().(type) {
	case *journalv1.Body_InputAccepted:
		for _, part := range b.InputAccepted.GetParts() {
			if p, is := part.GetPart().(*journalv1.Part_Text); is {
				text(&p.Text)
			}
		}
	case *journalv1.Body_ModelAborted:
		text(&b.ModelAborted.Message)
	case *journalv1.Body_ApprovalDecided:
		text(&b.ApprovalDecided.Reason)
	case *journalv1.Body_ToolResult:
		content, masks := s.mask.Redact(b.ToolResult.GetContent())
		b.ToolResult.Content = content
		b.ToolResult.Masked += int32(masks)
	case *journalv1.Body_ExecLost:
		text(&b.ExecLost.Reason)
	case *journalv1.Body_Compaction:
		b.Compaction.Summary, _ = s.mask.Redact(b.Compaction.GetSummary())
	case *journalv1.Body_SubmissionSettled:
		text(&b.SubmissionSettled.Error)
	}
}

// maskedText is for fields that must be UTF-8.
func (s *session) maskedText(text string) string {
	clean, _ := s.mask.Redact([]byte(text))
	return strings.ToValidUTF8(string(clean), "\uFFFD")
}
