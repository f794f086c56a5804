package driver

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// Spans say what was done, for how long, and how it ended; never what was said. What a model, a tool, a command or a client put
// into words is in no attribute: a name is told only when it is one of ours, an error by its kind.
//
//	invoke_agent   a claim's work on a submission; its parent is the caller's span
//	├─ chat        a model call
//	├─ execute_tool
//	│  └─ exec     the command, or the operation on files
//	└─ commit      a step, as the database takes it
//
// A span that is open when its process dies is lost. The next owner's work is another span under the same parent.

// The conventions of gen_ai.* are in no later semconv than this one.

// scopeName is the instrumentation scope of all spans that are made here.
const scopeName = "github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"

// other stands for a name that is not ours.
const other = "_OTHER"

// turnSpan is the span of the submission at work. The loop begins and ends it; goroutines only read it.
type turnSpan struct{ now atomic.Pointer[trace.Span] }

func (t *turnSpan) in(ctx context.Context) context.Context {
	if span := t.now.Load(); span != nil {
		return trace.ContextWithSpan(ctx, *span)
	}
	return ctx
}

// beginSpan begins the span of the submission that the claim has now, if it has one.
func (s *session) beginSpan() {
	work := s.claim.Submission
	if work == nil {
		return
	}
	_, span := s.tracer.Start(trace.ContextWithRemoteSpanContext(s.ctx, remote(work.Trace)), "invoke_agent",
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
			semconv.GenAIOperationNameInvokeAgent,
			semconv.GenAIConversationID(s.claim.Session.String()),
			semconv.GenAIAgentName(s.maskedText(s.claim.Agent)),
			semconv.GenAIProviderNameKey.String(s.agent.Provider),
			semconv.GenAIRequestModel(s.agent.Agent.Model),
			attribute.String("flyfleet.submission.id", work.ID.String()),
			attribute.String("flyfleet.tenant", s.claim.Tenant),
			attribute.Int64("flyfleet.fence", s.claim.Fence),
			attribute.Int("flyfleet.attempt", s.claim.Attempts+1),
			attribute.Bool("flyfleet.took_over", s.claim.TookOver),
		))
	s.span.now.Store(&span)
}

// endSpan ends it: settled with an outcome, or the claim's end before that.
func (s *session) endSpan(end string, err error) {
	p := s.span.now.Swap(nil)
	if p == nil {
		return
	}
	span := *p
	span.SetAttributes(attribute.String("flyfleet.turn.end", end))
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// endOf says how a claim ended that has settled nothing.
func endOf(err error) string {
	switch {
	case err == nil:
		return "given_up"
	case errors.Is(err, store.ErrFenced):
		return "fenced"
	}
	return "failed"
}

// joinSpan names the span of an input that became part of the turn.
func (s *session) joinSpan(joining store.Submission) {
	if caller := remote(joining.Trace); caller.IsValid() {
		trace.SpanFromContext(s.span.in(s.ctx)).AddLink(trace.Link{SpanContext: caller})
	}
}

// remote reads a traceparent.
func remote(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent}))
}

// commitSpan is around what the database does.
func (s *session) commitSpan(step store.Step) (context.Context, func(error)) {
	if step.Async {
		return s.ctx, func(error) {}
	}
	ctx, span := s.tracer.Start(s.span.in(s.ctx), "commit", trace.WithAttributes(
		attribute.Int64("flyfleet.journal.after", step.After), attribute.Int("flyfleet.journal.entries", len(step.Entries))))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// callSpan is around the work of this process on a call.
func (s *session) callSpan(ctx context.Context, j job) (context.Context, func(error)) {
	name := s.named(j.tool)
	if j.nested {
		// The gateway takes no call of an upstream that is not configured.
		name = j.tool
	}
	ctx, span := s.tracer.Start(s.span.in(ctx), "execute_tool "+name, trace.WithAttributes(
		semconv.GenAIOperationNameExecuteTool,
		semconv.GenAIToolName(name),
		semconv.GenAIToolType("function"),
		attribute.String("flyfleet.call.class", j.class.String()),
		attribute.Bool("flyfleet.call.resumed", j.again),
	))
	return ctx, func(err error) {
		if err != nil {
			// There is no result: it was told to stop, or another owner will have it.
			span.SetAttributes(attribute.Bool("flyfleet.call.given_up", true))
			if ctx.Err() == nil && !errors.Is(err, errCannot) {
				span.SetStatus(codes.Error, "")
			}
		}
		span.End()
	}
}

// named is a tool's name, if the agent has such a tool: a model may call anything by any name.
func (s *session) named(tool string) string {
	for _, ours := range s.agent.Agent.Tools {
		if ours.Name == tool {
			return tool
		}
	}
	return other
}

// runTool runs the tool of a call, in a span of its own when it is one operation of the machine.
func (s *session) runTool(ctx context.Context, j *job, call tools.Call) (tools.Result, error) {
	whole, span := trace.SpanFromContext(ctx), trace.SpanFromContext(context.Background())
	if j.exec.ID != "" {
		ctx, span = s.tracer.Start(ctx, "exec", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(execAttributes(j.exec, j.again)...))
	}
	defer span.End()
	result, err := s.agent.Tools.Run(ctx, j.tool, call)
	switch {
	case err != nil:
		span.SetStatus(codes.Error, "")
		return result, err
	case result.Lost != nil:
		span.SetAttributes(semconv.ErrorTypeKey.String("lost"))
		span.SetStatus(codes.Error, "")
	case result.Exit != nil:
		span.SetAttributes(semconv.ProcessExitCode(result.Exit.Code), attribute.String("flyfleet.exec.cause", string(result.Exit.Cause)),
			attribute.Int64("flyfleet.exec.stdout_bytes", result.Exit.Ends.Stdout), attribute.Int64("flyfleet.exec.stderr_bytes", result.Exit.Ends.Stderr))
	}
	// A command that fails is an answer, as a rule: the model's business, and no fault of the system.
	whole.SetAttributes(attribute.Bool("flyfleet.call.failed", result.Failed))
	return result, nil
}

func execAttributes(exec journal.Exec, again bool) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("flyfleet.exec.id", exec.ID), attribute.String("flyfleet.machine", exec.Machine), attribute.Bool("flyfleet.exec.resumed", again),
	}
}

// tracedModel has a span for each call of a model.
type tracedModel struct {
	model.Model
	tracer       trace.Tracer
	conversation string
}

// Ask is model.Model's.
func (t tracedModel) Ask(ctx context.Context, r model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	ctx, span := t.tracer.Start(ctx, "chat "+r.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.GenAIOperationNameChat,
		semconv.GenAIProviderNameKey.String(t.Provider()),
		semconv.GenAIRequestModel(r.Model),
		semconv.GenAIConversationID(t.conversation),
		attribute.Int("flyfleet.model.attempt", r.Attempt),
	))
	defer span.End()
	if r.MaxTokens > 0 {
		span.SetAttributes(semconv.GenAIRequestMaxTokens(int(r.MaxTokens)))
	}
	answer, err := t.Model.Ask(ctx, r, onDelta)
	if err != nil {
		kind, known := model.KindOf(err)
		if !known {
			kind = other
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(string(kind)))
		span.SetStatus(codes.Error, "")
		return answer, err
	}
	u := answer.Usage
	span.SetAttributes(
		semconv.GenAIResponseFinishReasons(reason(answer.StopReason)),
		// The convention counts what came from a cache as input too.
		semconv.GenAIUsageInputTokens(int(u.Input+u.CacheRead+u.CacheWrite)), semconv.GenAIUsageOutputTokens(int(u.Output)),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)), semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
	)
	return answer, nil
}

// reason is a stop reason that all providers share; another one is a provider's own word.
func reason(stop model.StopReason) string {
	switch stop {
	case model.StopEnd, model.StopTools, model.StopLength, model.StopRefused, model.StopPaused:
		return string(stop)
	}
	return other
}

// tracedLog gives what is logged without a span the span of the turn.
type tracedLog struct {
	slog.Handler
	span *turnSpan
}

// Handle is slog.Handler's.
func (h tracedLog) Handle(ctx context.Context, r slog.Record) error {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = h.span.in(ctx)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog.Handler's.
func (h tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{h.Handler.WithAttrs(attrs), h.span}
}

// WithGroup is slog.Handler's.
func (h tracedLog) WithGroup(name string) slog.Handler {
	return tracedLog{h.Handler.WithGroup(name), h.span}
}
