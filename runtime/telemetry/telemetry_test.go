package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// unset are all variables that Start reads.
func unset(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
		"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER",
		"OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
	} {
		t.Setenv(name, "")
	}
}

func TestEnvironmentIsUnderstoodOrRefusedWithItsName(t *testing.T) {
	const good = "http://localhost:4318"
	cases := map[string]struct {
		env   map[string]string
		on    bool
		wrong string
	}{
		"nothing is set":           {},
		"a collector":              {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good}, on: true},
		"one for traces only":      {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.test/v1/traces"}, on: true},
		"the protocol by name":     {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, on: true},
		"switched off":             {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_SDK_DISABLED": "true"}},
		"no exporter":              {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_TRACES_EXPORTER": "none"}},
		"no scheme":                {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		"no host":                  {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://"}, wrong: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no URL"},
		"no URL at all":            {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://[::1"}, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		"a password":               {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:hunter22@c.test"}, wrong: "OTEL_EXPORTER_OTLP_HEADERS"},
		"another protocol":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, wrong: `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`},
		"another protocol, traces": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, wrong: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		"another exporter":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": good, "OTEL_TRACES_EXPORTER": "zipkin"}, wrong: "OTEL_TRACES_EXPORTER"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			unset(t)
			for variable, value := range c.env {
				t.Setenv(variable, value)
			}
			traces, err := Start(t.Context(), "test", slog.New(slog.DiscardHandler))
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "hunter22") {
					t.Fatalf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer traces.Close()
			_, span := traces.Tracer("test").Start(t.Context(), "x")
			if span.IsRecording() != c.on {
				t.Errorf("spans are recorded: %v", span.IsRecording())
			}
		})
	}
}

// Without a collector a caller's trace is still handed on.
func TestTraceIsHandedOnWithoutACollector(t *testing.T) {
	unset(t)
	traces, err := Start(t.Context(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer traces.Close()
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	_, span := traces.Tracer("test").Start(trace.ContextWithRemoteSpanContext(t.Context(), caller), "x")
	if !span.SpanContext().Equal(caller) {
		t.Errorf("the trace goes on as %v", span.SpanContext())
	}
}

// A collector that refuses spans is told of once, and once more when it takes them.
func TestCollectorsTroubleIsToldOnce(t *testing.T) {
	unset(t)
	var healthy atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	var log bytes.Buffer
	traces, err := Start(t.Context(), "test", slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer traces.Close()
	send := func() {
		_, span := traces.Tracer("test").Start(t.Context(), "x")
		span.End()
		if err := traces.sent.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	send()
	send()
	healthy.Store(true)
	send()
	send()
	var told []string
	for line := range strings.Lines(log.String()) {
		var r struct {
			Msg  string
			Lost int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if told = append(told, r.Msg); strings.HasSuffix(r.Msg, "again") && r.Lost != 2 {
			t.Errorf("lost are %d", r.Lost)
		}
	}
	if !slices.Equal(told, []string{"the collector takes no spans", "the collector takes spans again"}) {
		t.Errorf("told was %q", told)
	}
}

// deaf is a collector that takes what is sent and does not answer before it is let.
type deaf struct {
	*httptest.Server
	// asked and gone have an element for each request that came, and for each whose sender did not wait for the answer.
	asked, gone chan struct{}
	answer      chan struct{}
}

// newDeaf gives traces that go to one, each span in a request of its own, four at most in the queue, by a client that waits for ever.
func newDeaf(t *testing.T) (*deaf, *Traces) {
	t.Helper()
	unset(t)
	c := &deaf{asked: make(chan struct{}, 10_000), gone: make(chan struct{}, 10_000), answer: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // before that nobody notices that the sender goes
		c.asked <- struct{}{}
		select {
		case <-c.answer:
		case <-r.Context().Done():
			c.gone <- struct{}{}
		}
	}))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600000", "OTEL_BSP_EXPORT_TIMEOUT": "3600000",
		"OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
	} {
		t.Setenv(name, value)
	}
	traces, err := Start(t.Context(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c, traces
}

// span makes one and ends it.
func (t *Traces) span(ctx context.Context) {
	_, span := t.Tracer("test").Start(ctx, "x")
	span.End()
}

// soon fails the test when something does not happen within a minute.
func soon(t *testing.T, what string, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
	}
}

// While a collector does not answer, spans end at once, and of those that cannot wait in the queue nothing is kept.
func TestSpansForADeafCollectorAreDropped(t *testing.T) {
	collector, traces := newDeaf(t)
	traces.span(t.Context())
	soon(t, "the first span is sent", collector.asked)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 1000 {
			traces.span(t.Context())
		}
	}()
	soon(t, "the others end", ended)
	close(collector.answer)
	if err := traces.sent.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	traces.Close()
	if n := len(collector.asked); n != 4 {
		t.Errorf("%d spans were kept, the queue has room for 4", n)
	}
}

// A stop gives up on a collector that does not answer, and leaves no request behind.
func TestStopDoesNotWaitForADeafCollector(t *testing.T) {
	collector, traces := newDeaf(t)
	for range 3 {
		traces.span(t.Context())
	}
	soon(t, "the first span is sent", collector.asked)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		traces.Close()
	}()
	soon(t, "the stop ends", closed)
	soon(t, "the request is cut off", collector.gone)
}

func TestLogNamesTheSpan(t *testing.T) {
	var out bytes.Buffer
	log := Logger(slog.New(slog.NewJSONHandler(&out, nil))).With("a", 1)
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	log.InfoContext(trace.ContextWithSpanContext(t.Context(), span), "with")
	log.InfoContext(t.Context(), "without")
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], `"trace_id":"01000000000000000000000000000000","span_id":"0200000000000000"`) || strings.Contains(lines[1], "trace_id") {
		t.Errorf("logged:\n%s", out.String())
	}
}

func TestHeadersValuesAreKnown(t *testing.T) {
	got := HeaderValues("authorization=Basic%20c2VjcmV0, x-key = plain=with=signs")
	for _, want := range []string{"Basic c2VjcmV0", "c2VjcmV0", "plain=with=signs"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
