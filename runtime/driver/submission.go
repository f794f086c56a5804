package driver

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

func turnStarted(attempt int32) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_TurnStarted{TurnStarted: &journalv1.TurnStarted{Attempt: attempt}}}
}

// accept takes up the submission that the claim begins, or one that joins it.
func (s *session) accept(a turn.AcceptInput) error {
	if a.Joins {
		return s.join(a.Submission)
	}
	work := s.claim.Submission
	parts, err := DecodeInput(work.Payload)
	if err != nil {
		// It was admitted: it has an end, and its sender is told.
		return s.settle(turn.Settle{
			Submission: a.Submission, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, Error: err.Error(),
		})
	}
	return s.take(*work, parts)
}

func (s *session) join(id uuid.UUID) error {
	for i, joining := range s.news.Joining {
		if joining.ID != id {
			continue
		}
		parts, err := DecodeInput(joining.Payload)
		if err != nil {
			parts = []*journalv1.Part{Text("(an input that cannot be read)")}
		}
		if err := s.learn(joining.ID); err != nil {
			return err
		}
		if err := s.take(joining, parts); err != nil {
			return err
		}
		s.joinSpan(joining)
		s.news.Joining = append(s.news.Joining[:i:i], s.news.Joining[i+1:]...)
		return nil
	}
	return fmt.Errorf("submission %s joins, and is not there", id)
}

func (s *session) take(work store.Submission, parts []*journalv1.Part) error {
	return s.commitFor(work.ID, store.Step{Accept: []store.Accept{{Submission: work.ID}}}, &journalv1.Body{
		Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{Ordinal: work.Ordinal, Parts: parts}},
	})
}

// settle reserves the end, writes it, and goes on with the next submission. Whoever owns the session after a death in
// between writes the same end.
func (s *session) settle(a turn.Settle) error {
	body := &journalv1.Body{Body: &journalv1.Body_SubmissionSettled{SubmissionSettled: &journalv1.SubmissionSettled{
		Outcome: a.Outcome, Error: s.maskedText(a.Error), UnknownCalls: a.Unknown, Usage: a.Usage.Proto(),
	}}}
	_, record, err := journal.Marshal(body)
	if err != nil {
		return err
	}
	if err := s.commit(store.Step{Terminalize: &store.Terminal{Submission: a.Submission, Record: record}}); err != nil {
		return err
	}
	return s.finish(body)
}

// finishTerminal writes the end that an owner before has reserved.
func (s *session) finishTerminal() error {
	work := s.claim.Submission
	if work == nil || work.Terminal == nil {
		return nil
	}
	body, err := journal.Unmarshal(journal.KindSubmissionSettled, work.Terminal)
	if err != nil {
		return err
	}
	return s.finish(body)
}

func (s *session) finish(body *journalv1.Body) error {
	id := s.claim.Submission.ID
	step := store.Step{Finish: &store.Finish{Submission: id, Outcome: body.GetSubmissionSettled().GetOutcome()}}
	if err := s.commitFor(id, step, body); err != nil {
		return err
	}
	outcome := body.GetSubmissionSettled().GetOutcome().String()
	s.log.InfoContext(s.ctx, "submission settled", "submission", id, "outcome", outcome)
	s.endSpan(outcome, nil)
	return s.begin()
}

// begin takes up the next submission, if there is one. What was known of the last one is over.
func (s *session) begin() error {
	claim, err := s.options.Store.Begin(s.ctx, s.claim)
	if err != nil {
		return err
	}
	s.claim, s.news = claim, store.News{}
	s.stopped, s.clocks = map[string]bool{}, newClocks()
	s.stoppedAt, s.modelError = time.Time{}, nil
	if err := s.learnClaim(); err != nil {
		return err
	}
	s.beginSpan()
	return s.look()
}
