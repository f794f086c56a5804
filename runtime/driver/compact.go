package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

const (
	// transcriptBytes is how much of a conversation is summed up, its newest part, and resultBytes how much of a result is
	// in it.
	transcriptBytes = 200 << 10
	resultBytes     = 2 << 10
	summaryTokens   = 4096

	summarySystem = "You sum up the beginning of a conversation between a user and an agent, for the agent that goes on with it. " +
		"Keep what was asked, what was decided, what was done and where, what failed and why, and what is still open. Write notes, no introduction."
)

// compact asks for a summary and appends it. One that cannot be had is replaced by a word about what is left out: the turn
// goes on.
func (s *session) compact(a turn.Compact) (did, error) {
	if s.compacting {
		return nothing, nil
	}
	s.compacting = true
	transcript, open := s.transcript(a.UptoSeq), s.state.Open().ID
	request := model.Request{
		Model: s.agent.Agent.Model, System: summarySystem, MaxTokens: summaryTokens, Attempt: 1,
		Messages: []model.Message{model.User(model.Text(transcript))},
	}
	ctx := s.span.in(s.ctx)
	s.own(func() {
		answer, err := s.agent.Model.Ask(ctx, request, nil)
		s.tell(func() error {
			s.compacting = false
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			if now := s.state.Open(); now == nil || now.ID != open || s.state.Trouble == nil {
				return nil
			}
			summary, err := summaryOf(answer, err)
			if err != nil {
				s.log.WarnContext(s.ctx, "a conversation was cut, not summed up", "error", err)
			}
			return s.append(&journalv1.Body{Body: &journalv1.Body_Compaction{Compaction: &journalv1.Compaction{UptoSeq: a.UptoSeq, Summary: []byte(summary)}}})
		})
	})
	return nothing, nil
}

func summaryOf(answer model.Answer, err error) (string, error) {
	var text strings.Builder
	for _, block := range answer.Blocks {
		if block.Kind == model.KindText {
			text.WriteString(block.Text)
		}
	}
	if err == nil && strings.TrimSpace(text.String()) == "" {
		err = errors.New("the model said nothing")
	}
	if err != nil {
		return "(The beginning of the conversation was too long, and is left out. The workspace has what was done.)", err
	}
	return text.String(), nil
}

// transcript is the conversation up to an entry, as text.
func (s *session) transcript(upto int64) string {
	var b strings.Builder
	for _, item := range s.state.Conversation {
		if item.Seq > upto {
			break
		}
		switch {
		case item.Summary != nil:
			fmt.Fprintf(&b, "Summary of what was before:\n%s\n\n", item.Summary.Text)
		case item.Input != nil:
			for _, part := range item.Input.Parts {
				fmt.Fprintf(&b, "User: %s\n\n", part.Text)
			}
		case item.Answer != nil:
			s.transcribe(&b, item.Answer)
		}
	}
	text := b.String()
	if len(text) > transcriptBytes {
		text = "[…]" + text[len(text)-transcriptBytes:]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (s *session) transcribe(b *strings.Builder, answer *journal.Answer) {
	for _, kept := range answer.Blocks {
		block, err := model.Decode(answer.Provider, kept.Raw)
		switch {
		case err != nil:
		case block.Kind == model.KindText:
			fmt.Fprintf(b, "Agent: %s\n\n", block.Text)
		case block.Kind == model.KindToolCall:
			fmt.Fprintf(b, "Agent calls %s %s\n", block.Tool, block.Args)
		}
	}
	for _, id := range answer.Calls {
		if result := s.state.Calls[id].Result; result != nil {
			fmt.Fprintf(b, "Result: %s\n\n", result.Content[:min(len(result.Content), resultBytes)])
		}
	}
}
