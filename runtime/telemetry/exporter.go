package telemetry

import (
	"context"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter tells when a collector stops taking spans and when it takes them again, once each. The SDK calls it from one
// goroutine at a time.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost int
}

// ExportSpans is SpanExporter's. What was not taken is gone.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		if e.lost == 0 {
			e.log.WarnContext(ctx, "the collector takes no spans", "error", err)
		}
		e.lost += len(spans)
	case e.lost > 0:
		e.log.InfoContext(ctx, "the collector takes spans again", "lost", e.lost)
		e.lost = 0
	}
	return nil
}
