// Package telemetry sends a replica's spans to a collector, by OTLP over HTTP, where OpenTelemetry's variables of the
// environment name one. Whoever makes spans is given a trace.TracerProvider and does not know this package.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// FlushTime bounds how long Close waits for the collector.
const FlushTime = 500 * time.Millisecond

// Traces is where spans go.
type Traces struct {
	trace.TracerProvider
	sent     *sdktrace.TracerProvider
	exporter *exporter
}

// Start reads the environment. Without OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT nothing is sent, and
// spans only hand on the trace that they were given. An error names the variable that makes no sense. Whether the collector
// can be reached is not asked: spans wait for it in a queue of bounded length (OTEL_BSP_MAX_QUEUE_SIZE, 2048), and those for
// which there is no room are dropped.
func Start(ctx context.Context, build string, log *slog.Logger) (*Traces, error) {
	on, err := wanted(os.Getenv)
	if err != nil {
		return nil, err
	}
	if !on {
		return &Traces{TracerProvider: noop.NewTracerProvider()}, nil
	}
	client, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send spans: %w", err)
	}
	about, err := describe(ctx, build)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// What the SDK has to say by itself, such as spans that a collector did not take.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "error", err) }))
	t := &Traces{exporter: &exporter{SpanExporter: client, log: log}}
	t.sent = sdktrace.NewTracerProvider(sdktrace.WithBatcher(t.exporter), sdktrace.WithResource(about))
	t.TracerProvider = t.sent
	return t, nil
}

// Close sends what waits, for at most FlushTime. Spans that end later are dropped.
func (t *Traces) Close() {
	if t.sent == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushTime)
	defer cancel()
	if err := t.sent.Shutdown(ctx); err != nil {
		t.exporter.log.Warn("the last spans were not sent", "error", err)
		// It cuts off what is still on its way.
		_ = t.exporter.Shutdown(context.Background())
	}
}

// wanted: there is a collector to send to.
func wanted(get func(string) string) (bool, error) {
	name, endpoint := first(get, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" || strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch kind := get("OTEL_TRACES_EXPORTER"); kind {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: otlp or none", kind)
	}
	if name, protocol := first(get, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		return false, fmt.Errorf("%s is %q: spans are sent as http/protobuf only, to a collector's port for HTTP, as a rule 4318", name, protocol)
	}
	// The SDK would log what is wrong with it, and send to localhost.
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("%s is no URL of a collector: write http://host:4318, or https", name)
	}
	if u.User != nil {
		return false, fmt.Errorf("%s has a user in it: credentials of a collector go into OTEL_EXPORTER_OTLP_HEADERS", name)
	}
	return true, nil
}

// first is the first of the variables that is set.
func first(get func(string) string, names ...string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(get(name)); value != "" {
			return name, value
		}
	}
	return "", ""
}

// describe says whose spans these are; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
func describe(ctx context.Context, build string) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithAttributes(
			semconv.ServiceName("flyfleet-runtime"), semconv.ServiceVersion(build),
			attribute.String(string(semconv.ServiceInstanceIDKey), uuid.NewString()),
		),
		resource.WithFromEnv(),
	)
}

// HeaderValues are what a text of OTEL_EXPORTER_OTLP_HEADERS, name=value,…, keeps secret.
func HeaderValues(text string) []string {
	var all []string
	for pair := range strings.SplitSeq(text, ",") {
		_, value, _ := strings.Cut(pair, "=")
		value = strings.TrimSpace(value)
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		all = append(all, value)
		if _, bare, scheme := strings.Cut(value, " "); scheme {
			all = append(all, bare)
		}
	}
	return all
}
