package driver

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// asking is a model call that runs here.
type asking struct {
	stop context.CancelCauseFunc
	// masked and text hold what viewers have not been shown yet; last is when they were.
	masked *secrets.Stream
	text   strings.Builder
	last   time.Time
	// heard is when the model last said anything, in Unix nanoseconds.
	heard atomic.Int64
}

// deltaEvery is how often at most a piece of an answer is kept for viewers.
const deltaEvery = 500 * time.Millisecond

var (
	errAborted = errors.New("the model call was aborted")
	errSilent  = errors.New("the model has said nothing for too long")
)

// watch ends a model call that nothing is heard of, though this process beats: the client's own limits are no promise.
func (s *session) watch() {
	if s.asking != nil && time.Since(time.Unix(0, s.asking.heard.Load())) > s.options.ModelSilence {
		s.asking.stop(errSilent)
	}
}

// ask commits the intent, and asks.
func (s *session) ask(a turn.AskModel) error {
	request, err := turn.Request(s.state, s.agent.Agent, a.Plain)
	if err != nil {
		return err
	}
	requestSHA, toolsSHA, err := turn.Digests(request)
	if err != nil {
		return err
	}
	request.Attempt = int(a.Try)
	if err := s.append(&journalv1.Body{Body: &journalv1.Body_ModelRequested{ModelRequested: &journalv1.ModelRequested{
		Provider: s.agent.Provider, Model: s.agent.Agent.Model, RequestSha256: requestSHA, ToolsSha256: toolsSHA, Attempt: a.Try,
	}}}); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(s.span.in(s.ctx))
	this := &asking{stop: stop, last: time.Now(), masked: s.mask.Stream()}
	this.heard.Store(time.Now().UnixNano())
	s.asking = this
	s.own(func() {
		defer stop(nil)
		answer, err := s.agent.Model.Ask(ctx, request, func(d model.Delta) error { return s.show(ctx, this, d) })
		crashpoint.Hit("model.answered")
		s.tell(func() error { return s.answered(this, answer, err) })
	})
	return nil
}

// abort stops the call, whose answer will not count.
func (s *session) abort(a turn.AbortModel) error {
	if s.asking != nil {
		s.asking.stop(errAborted)
		s.asking = nil
	}
	return s.append(aborted(a.Reason, "", a.Retryable))
}

func aborted(reason, message string, retryable bool) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ModelAborted{ModelAborted: &journalv1.ModelAborted{
		Reason: reason, Message: message, Retryable: retryable,
	}}}
}

// show keeps what viewers see of an answer that is on its way. It is for watching only: what of it is not written when
// the answer comes is not written at all.
func (s *session) show(ctx context.Context, this *asking, d model.Delta) error {
	this.heard.Store(time.Now().UnixNano())
	if d.Kind != model.KindText {
		return nil
	}
	_, _ = this.text.Write(this.masked.Write([]byte(d.Text)).Data)
	if now := time.Now(); now.Sub(this.last) >= deltaEvery && this.text.Len() > 0 {
		text := strings.ToValidUTF8(this.text.String(), "\uFFFD")
		this.text.Reset()
		this.last = now
		return s.in(ctx, func() error {
			if s.asking != this {
				return errCannot
			}
			return s.commit(store.Step{Async: true}, &journalv1.Body{Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: text}}})
		})
	}
	return nil
}

// answered takes what the call came to.
func (s *session) answered(this *asking, answer model.Answer, err error) error {
	if s.asking != this {
		return nil
	}
	s.asking = nil
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if err == nil {
		return s.complete(answer)
	}
	failure := new(model.Error)
	if !errors.As(err, &failure) {
		failure = &model.Error{Kind: model.Timeout, Provider: s.agent.Provider, Message: err.Error()}
	}
	s.modelError = failure
	s.log.WarnContext(s.ctx, "the model gave no answer", "error", err)
	return s.append(aborted(string(failure.Kind), failure.Message, failure.Retryable()))
}

// complete commits an answer with its calls, as one batch.
func (s *session) complete(answer model.Answer) error {
	completed := &journalv1.ModelCompleted{
		Provider: answer.Provider, Model: answer.Model, StopReason: string(answer.StopReason), ResponseId: answer.ResponseID,
		Usage: &journalv1.Usage{
			Input: answer.Usage.Input, Output: answer.Usage.Output, CacheRead: answer.Usage.CacheRead, CacheWrite: answer.Usage.CacheWrite,
		},
	}
	var names []string
	for _, block := range answer.Blocks {
		completed.Blocks = append(completed.Blocks, &journalv1.Block{Kind: blockKind(block.Kind), Raw: block.Raw})
		if block.Kind == model.KindToolCall {
			names = append(names, block.CallID)
		}
	}
	bodies := []*journalv1.Body{{Body: &journalv1.Body_ModelCompleted{ModelCompleted: completed}}}
	ids := s.state.FreshCallIDs(names...)
	step := store.Step{}
	for i, block := range answer.Blocks {
		if block.Kind != model.KindToolCall {
			continue
		}
		called := s.called(ids[len(bodies)-1], i, block)
		bodies = append(bodies, &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: called}})
		step.Intend = append(step.Intend, store.Effect{
			Call: called.GetCallId(), Submission: s.state.Open().ID, Class: called.GetClass(), Tool: called.GetTool(), ArgsSHA256: called.GetArgsSha256(),
		})
	}
	return s.commit(step, bodies...)
}

func (s *session) called(id string, index int, block model.Block) *journalv1.ToolCalled {
	plan := s.agent.Tools.Plan(block.Tool, block.Args)
	return &journalv1.ToolCalled{
		CallId: id, Tool: strings.ToValidUTF8(block.Tool, "\uFFFD"), ArgsSha256: journal.ArgsSHA256(block.Args),
		Class: plan.Class, Policy: plan.Policy, Block: int32(index),
	}
}

func blockKind(kind model.Kind) journalv1.BlockKind {
	switch kind {
	case model.KindText:
		return journalv1.BlockKind_BLOCK_KIND_TEXT
	case model.KindThinking:
		return journalv1.BlockKind_BLOCK_KIND_THINKING
	case model.KindToolCall:
		return journalv1.BlockKind_BLOCK_KIND_TOOL_CALL
	}
	return journalv1.BlockKind_BLOCK_KIND_OTHER
}
