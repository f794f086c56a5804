package daemon

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// What the test plants: none of it may be in a span.
const (
	tenantSecret = "tenant-credential-4711"
	headerSecret = "collector-password-4712"
	planted      = "PLANTED"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// A turn is one tree under its caller's span, whoever carried it out: two spans of work, since a card lay between them. The log
// names the trace, and nothing that anybody said is in a span.
func TestTurnIsATreeOfSpansWithoutContent(t *testing.T) {
	collector := newCollector(t)
	r := startReplica(t, collector.server.URL, func(c *Config) { c.Agents = gatedAgent(t) })

	session := r.session()
	request := connect.NewRequest(&runtimev1.SubmitRequest{
		SessionId: session, IdempotencyKey: planted + "-key", Credentials: map[string]string{"TOKEN": tenantSecret},
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: strings.Join([]string{
			"think: PLANTED thought", "run: echo PLANTED output " + tenantSecret + "; exit 3", `call: PLANTED_tool {"PLANTED": "argument"}`,
			"run: true gated PLANTED", "say: PLANTED answer",
		}, "\n")}}},
	})
	request.Header().Set("traceparent", "00-"+callersTrace+"-"+callersSpan+"-01")
	request.Header().Set("tracestate", "vendor=PLANTED")
	request.Header().Set("baggage", "user=PLANTED")
	made, err := r.api.Submit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	r.approve(session)
	r.settled(made.Msg.GetSubmission().GetSubmissionId())
	r.stop()

	submit := collector.one(t, "flyfleet.runtime.v1.RuntimeService/Submit")
	if got := text(submit.ParentSpanId); got != callersSpan || submit.Kind != tracev1.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span is below %s", got)
	}
	turns := collector.named("invoke_agent")
	if len(turns) != 2 {
		t.Fatalf("%d spans of the turn, not two", len(turns))
	}
	for i, end := range []string{"given_up", "SETTLED_OUTCOME_COMPLETED"} {
		turn := turns[i]
		if !bytes.Equal(turn.ParentSpanId, submit.SpanId) {
			t.Errorf("turn %d is not below the request", i)
		}
		want := map[string]any{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session, "gen_ai.provider.name": "scripted",
			"gen_ai.agent.name": "careful", "flyfleet.tenant": "acme", "flyfleet.submission.id": made.Msg.GetSubmission().GetSubmissionId(),
			"flyfleet.turn.end": end, "flyfleet.fence": int64(i + 1), "flyfleet.attempt": int64(1),
		}
		has(t, turn, want)
	}
	below := func(parent *tracev1.Span) (names []string) {
		for _, span := range collector.spans() {
			if bytes.Equal(span.ParentSpanId, parent.SpanId) && span.Name != "commit" {
				names = append(names, span.Name)
			}
		}
		return names
	}
	first := []string{"chat script", "execute_tool exec", "chat script", "execute_tool _OTHER", "chat script"}
	if got := below(turns[0]); !slices.Equal(got, first) {
		t.Errorf("below the first turn: %q", got)
	}
	if got := below(turns[1]); !slices.Equal(got, []string{"execute_tool exec", "chat script"}) {
		t.Errorf("below the second turn: %q", got)
	}
	for i, call := range collector.named("execute_tool exec") {
		has(t, call, map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "exec", "flyfleet.call.failed": i == 0})
		if got := below(call); !slices.Equal(got, []string{"exec"}) {
			t.Errorf("below call %d: %q", i, got)
		}
	}
	for i, code := range []int64{3, 0} {
		has(t, collector.named("exec")[i], map[string]any{"process.exit.code": code, "flyfleet.machine": "local"})
	}
	for _, chat := range collector.named("chat script") {
		has(t, chat, map[string]any{"gen_ai.operation.name": "chat", "gen_ai.request.model": "script"})
		if chat.Kind != tracev1.Span_SPAN_KIND_CLIENT {
			t.Errorf("a model call is of kind %s", chat.Kind)
		}
	}
	for _, span := range collector.spans() {
		if !strings.HasSuffix(span.Name, "/Submit") && strings.HasPrefix(span.Name, "flyfleet.runtime") {
			continue // requests of other traces
		}
		if text(span.TraceId) != callersTrace {
			t.Errorf("%s is in trace %x", span.Name, span.TraceId)
		}
	}
	if !strings.Contains(r.log.line(`"msg":"submission settled"`), `"trace_id":"`+callersTrace+`"`) {
		t.Errorf("the log does not name the trace:\n%s", r.log)
	}
	for _, secret := range []string{planted, tenantSecret, headerSecret, r.key, r.database} {
		if collector.saw(secret) {
			t.Errorf("%q is in a span", secret)
		}
	}
	if got := collector.header("Authorization"); got != "Basic "+headerSecret {
		t.Errorf("the collector was sent the header %q", got)
	}
	if about := collector.about(); about["service.name"] != "agents" || about["deployment.environment.name"] != "test" {
		t.Errorf("the spans are of %v", about)
	}
}

// A collector that takes the connection and never answers holds up neither a turn nor a stop, and a full queue drops spans.
func TestCollectorThatHangsHoldsNothingUp(t *testing.T) {
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hanging.Close()
	defer close(release)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	r := startReplica(t, hanging.URL, nil)
	session := r.session()
	for range 3 {
		r.submit(session, "run: true\nsay: done")
	}
	// The collector hangs until after this.
	r.stop()
}

// gatedAgent asks a person before it runs what is gated.
func gatedAgent(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agents.json")
	entry := `{"agents": {"careful": {"rules": [{"tool": "exec", "arg": "command", "match": "gated", "policy": "ask"}]}}}`
	if err := os.WriteFile(file, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// collector takes spans as strictly as the protocol says.
type collector struct {
	server *httptest.Server

	mu      sync.Mutex
	all     []*tracev1.Span
	bodies  [][]byte
	headers http.Header
	origin  map[string]any
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		sent := new(collectorv1.ExportTraceServiceRequest)
		if err == nil {
			err = proto.UnmarshalOptions{DiscardUnknown: false}.Unmarshal(body, sent)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
			len(sent.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("not an OTLP request: %s %s %s: %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies, c.headers = append(c.bodies, body), r.Header
		for _, from := range sent.GetResourceSpans() {
			c.origin = attributes(from.GetResource().GetAttributes())
			for _, scope := range from.GetScopeSpans() {
				c.all = append(c.all, scope.GetSpans()...)
			}
		}
		answer, _ := proto.Marshal(&collectorv1.ExportTraceServiceResponse{})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(answer)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// spans are all that came, in the order of their begins.
func (c *collector) spans() []*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.all)
	slices.SortStableFunc(all, func(a, b *tracev1.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return all
}

func (c *collector) named(name string) []*tracev1.Span {
	return slices.DeleteFunc(c.spans(), func(s *tracev1.Span) bool { return s.Name != name })
}

func (c *collector) one(t *testing.T, name string) *tracev1.Span {
	t.Helper()
	found := c.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans are called %s", len(found), name)
	}
	return found[0]
}

func (c *collector) saw(secret string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.bodies, func(body []byte) bool { return bytes.Contains(body, []byte(secret)) })
}

func (c *collector) header(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.headers.Get(name)
}

func (c *collector) about() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.origin
}

func attributes(all []*commonv1.KeyValue) map[string]any {
	found := map[string]any{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			found[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			found[a.GetKey()] = v.IntValue
		case *commonv1.AnyValue_BoolValue:
			found[a.GetKey()] = v.BoolValue
		}
	}
	return found
}

func text(id []byte) string { return hex.EncodeToString(id) }

func has(t *testing.T, span *tracev1.Span, want map[string]any) {
	t.Helper()
	got := attributes(span.GetAttributes())
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %v, not %v", span.Name, name, got[name], value)
		}
	}
}
