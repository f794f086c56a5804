package journal

import (
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

func (s *State) requestModel(entry Entry, request *journalv1.ModelRequested) string {
	open := s.Open()
	switch {
	case open == nil || open.ID != entry.Submission:
		return "its submission is not open"
	case open.Attempt == 0:
		return "no attempt has begun"
	case s.Request != nil:
		return "another model call has no answer yet"
	case len(s.Pending()) > 0:
		return "call " + s.Pending()[0].ID + " has no result"
	case s.Answered:
		return "the submission has its answer"
	}
	s.Request = &Request{
		Seq: entry.Seq, Fence: entry.Fence, Provider: request.GetProvider(), Model: request.GetModel(),
		SHA256: request.GetRequestSha256(), Attempt: request.GetAttempt(),
	}
	return ""
}

func (s *State) addDelta(delta *journalv1.ModelDelta) string {
	if s.Request == nil {
		return "no model call is in flight"
	}
	s.Request.Partial += int64(len(delta.GetText()))
	return ""
}

func (s *State) completeModel(entry Entry, completed *journalv1.ModelCompleted) string {
	switch {
	case s.Request == nil:
		return "no model call is in flight"
	case completed.GetProvider() != s.Request.Provider || completed.GetModel() != s.Request.Model:
		return "another model was asked"
	}
	answer := &Answer{
		Provider: completed.GetProvider(), Model: completed.GetModel(),
		StopReason: completed.GetStopReason(), ResponseID: completed.GetResponseId(),
	}
	for _, block := range completed.GetBlocks() {
		answer.Blocks = append(answer.Blocks, Block{Kind: block.GetKind(), Raw: block.GetRaw()})
	}
	s.Usage.add(completed.GetUsage())
	s.Open().Usage.add(completed.GetUsage())
	s.answer(entry, answer)
	return ""
}

// StopPaused is the stop_reason of an answer that goes on when the model is asked again.
const StopPaused = "paused"

func (s *State) answer(entry Entry, answer *Answer) {
	s.Conversation = append(s.Conversation, Item{Seq: entry.Seq, Answer: answer})
	s.Request, s.Trouble, s.Batch = nil, nil, nil
	s.Answered = answer.Asked() == 0 && answer.StopReason != StopPaused
}

func (s *State) abortModel(entry Entry, aborted *journalv1.ModelAborted) string {
	if s.Request == nil && !s.torn() {
		return "no model call is in flight"
	}
	trouble := &Trouble{Reason: aborted.GetReason(), Message: aborted.GetMessage(), Retryable: aborted.GetRetryable(), Fence: entry.Fence}
	if s.Trouble != nil {
		trouble.Failures, trouble.Refusals = s.Trouble.Failures, s.Trouble.Refusals
	}
	if !trouble.Ours() {
		trouble.Failures++
		if !aborted.GetRetryable() {
			trouble.Refusals++
		}
	}
	s.dropTorn()
	s.Request, s.Trouble = nil, trouble
	return ""
}

// compact puts a summary in the place of all items up to a seq. Results belong to their calls and leave
// with the answer that asked for them.
func (s *State) compact(entry Entry, compaction *journalv1.Compaction) string {
	if compaction.GetUptoSeq() >= entry.Seq {
		return "it covers entries after it"
	}
	if s.Request != nil {
		return "a model call has no answer yet"
	}
	keep := 0
	for keep < len(s.Conversation) && s.Conversation[keep].Seq <= compaction.GetUptoSeq() {
		keep++
	}
	if keep == 0 {
		return "it covers nothing"
	}
	for _, item := range s.Conversation[:keep] {
		if reason := s.mayHide(item, compaction.GetUptoSeq()); reason != "" {
			return reason
		}
	}
	for _, item := range s.Conversation[:keep] {
		if item.Answer == nil {
			continue
		}
		for _, id := range item.Answer.Calls {
			s.Calls[id].Result.Content, s.Calls[id].Result.Attachments = nil, nil
		}
	}
	rest := s.Conversation[keep:]
	s.Conversation = append([]Item{{Seq: entry.Seq, Summary: &Summary{UptoSeq: compaction.GetUptoSeq(), Text: compaction.GetSummary()}}}, rest...)
	// The next request is another one than what came to nothing.
	s.Trouble = nil
	return ""
}

func (s *State) mayHide(item Item, upto int64) string {
	if item.Answer == nil {
		return ""
	}
	for _, id := range item.Answer.Calls {
		if result := s.Calls[id].Result; result == nil || result.Seq > upto {
			return "it would hide call " + id + " without its result"
		}
	}
	return ""
}
