package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Logger adds trace_id and span_id to what is logged with a context that has a span.
func Logger(log *slog.Logger) *slog.Logger { return slog.New(logged{log.Handler()}) }

type logged struct{ slog.Handler }

// Handle is slog.Handler's.
func (h logged) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs is slog.Handler's.
func (h logged) WithAttrs(attrs []slog.Attr) slog.Handler { return logged{h.Handler.WithAttrs(attrs)} }

// WithGroup is slog.Handler's.
func (h logged) WithGroup(name string) slog.Handler { return logged{h.Handler.WithGroup(name)} }
