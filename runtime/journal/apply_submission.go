package journal

import (
	"slices"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

func (s *State) acceptInput(entry Entry, input *journalv1.InputAccepted) string {
	if reason := s.mayAccept(entry, input.GetOrdinal()); reason != "" {
		return reason
	}
	parts := make([]Part, 0, len(input.GetParts()))
	for _, part := range input.GetParts() {
		if file := part.GetAttachment(); file != nil {
			attachment := attachmentOf(file)
			parts = append(parts, Part{Attachment: &attachment})
			continue
		}
		parts = append(parts, Part{Text: part.GetText()})
	}
	s.begin(entry, input.GetOrdinal(), &Input{Submission: entry.Submission, Parts: parts})
	return ""
}

func (s *State) mayAccept(entry Entry, ordinal int64) string {
	switch {
	case entry.Submission == uuid.Nil:
		return "it has no submission"
	case s.Open() != nil && !s.BetweenSteps():
		return "another submission is open, and in the midst of a step"
	case s.submission(entry.Submission) != nil:
		return "the submission was accepted or settled before"
	case ordinal <= s.lastOrdinal():
		return "a later submission was accepted before it"
	}
	return ""
}

// BetweenSteps reports whether the open submission has begun and a model call or an end is what follows: an input may
// join it here.
func (s *State) BetweenSteps() bool {
	phase := s.Phase()
	return phase == PhaseNeedModel || phase == PhaseSettling
}

// lastOrdinal counts within this session only: a fork numbers its submissions anew.
func (s *State) lastOrdinal() int64 {
	var last, from int64
	if n := len(s.Ancestors); n > 0 {
		from = s.Ancestors[n-1].Seq
	}
	for _, submission := range s.Submissions {
		if submission.InputSeq > from {
			last = submission.Ordinal
		}
	}
	return last
}

func (s *State) begin(entry Entry, ordinal int64, input *Input) {
	submission := &Submission{ID: entry.Submission, Ordinal: ordinal, InputSeq: entry.Seq}
	if host := s.Open(); host != nil {
		submission.Joins, submission.Attempt = host.ID, host.Attempt
	}
	s.Submissions = append(s.Submissions, submission)
	s.Conversation = append(s.Conversation, Item{Seq: entry.Seq, Input: input})
	s.Answered, s.Trouble, s.Batch = false, nil, nil
}

func (s *State) startTurn(entry Entry, turn *journalv1.TurnStarted) string {
	open := s.Open()
	switch {
	case open == nil || open.ID != entry.Submission:
		return "its submission is not open"
	case turn.GetAttempt() <= open.Attempt:
		return "that attempt has begun before"
	}
	open.Attempt = turn.GetAttempt()
	return ""
}

func (s *State) settle(entry Entry, settled *journalv1.SubmissionSettled) string {
	submission := s.submission(entry.Submission)
	if submission == nil {
		return s.settleQueued(entry, settled)
	}
	switch {
	case !submission.Open():
		return "the submission is settled"
	case submission.Joins != uuid.Nil:
		return "it ends with the submission that it joined"
	case s.Request != nil:
		return "a model call has no answer yet"
	case len(s.Pending()) > 0:
		return "call " + s.Pending()[0].ID + " has no result"
	}
	if reason := s.areUnknown(settled.GetUnknownCalls()); reason != "" {
		return reason
	}
	s.close(submission, entry, settled)
	for _, joined := range s.Submissions {
		if joined.Open() && joined.Joins == submission.ID {
			joined.Outcome, joined.SettledSeq = submission.Outcome, entry.Seq
		}
	}
	s.Answered, s.Trouble, s.Batch = false, nil, nil
	return ""
}

// settleQueued ends a submission that never began: cancelled in the queue.
func (s *State) settleQueued(entry Entry, settled *journalv1.SubmissionSettled) string {
	switch {
	case entry.Submission == uuid.Nil:
		return "it has no submission"
	case settled.GetOutcome() == journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED:
		return "a submission that never began cannot be completed"
	}
	submission := &Submission{ID: entry.Submission}
	s.close(submission, entry, settled)
	s.Submissions = append(s.Submissions, submission)
	return ""
}

func (s *State) close(submission *Submission, entry Entry, settled *journalv1.SubmissionSettled) {
	submission.Outcome = settled.GetOutcome()
	submission.Error = settled.GetError()
	submission.Unknown = slices.Clone(settled.GetUnknownCalls())
	submission.SettledSeq = entry.Seq
}

func (s *State) areUnknown(calls []string) string {
	for _, id := range calls {
		call := s.Calls[id]
		if call == nil || call.Result == nil || call.Result.Outcome != journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN {
			return "call " + id + " is not unknown"
		}
	}
	return ""
}

func (s *State) submission(id uuid.UUID) *Submission {
	for i := len(s.Submissions) - 1; i >= 0; i-- {
		if s.Submissions[i].ID == id {
			return s.Submissions[i]
		}
	}
	return nil
}

func attachmentOf(a *journalv1.Attachment) Attachment {
	return Attachment{Name: a.GetName(), MediaType: a.GetMediaType(), SHA256: a.GetSha256(), Size: a.GetSize(), Path: a.GetPath()}
}

// fork goes on from a cut through the parent. Nothing that the parent had under way is the fork's: its
// calls are closed, so that a model accepts the history at any cut, and an answer of which only a part of
// the batch was taken over never was.
func (s *State) fork(entry Entry, forked *journalv1.SessionForked) string {
	parent, err := uuid.Parse(forked.GetParentId())
	// A fork that was given its own copy of what it inherits has that under its own id.
	copied := entry.Session == s.Session
	switch {
	case err != nil || parent == entry.Session:
		return "it names no parent"
	case parent != s.Session && !copied:
		return "the entries before it are not its parent's"
	case forked.GetParentSeq() != s.Seq:
		return "its parent was cut elsewhere"
	}
	s.Request, s.Trouble = nil, nil
	s.dropTorn()
	for _, call := range s.Pending() {
		call.close(&Result{Seq: entry.Seq, Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED, Content: []byte(ForkedContent)})
	}
	for _, open := range s.Submissions {
		if open.Open() {
			open.Outcome, open.Error, open.SettledSeq = journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED, "forked", entry.Seq
		}
	}
	s.Ancestors = append(s.Ancestors, Cut{Session: parent, Seq: s.Seq})
	s.Answered, s.Batch = false, nil
	return ""
}

func (s *State) dropTorn() {
	if !s.torn() {
		return
	}
	last := len(s.Conversation) - 1
	for _, id := range s.Conversation[last].Answer.Calls {
		delete(s.Calls, id)
	}
	s.Conversation, s.Batch = s.Conversation[:last], nil
}
