package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// replica is one of this process.
type replica struct {
	t             *testing.T
	api           runtimev1connect.RuntimeServiceClient
	key, database string
	// address it listens on.
	address string
	log     *logLines
	stop    func()
}

// startReplica runs one that works on this computer and sends spans to the endpoint, if there is one.
func startReplica(t *testing.T, endpoint string, change func(*Config)) *replica {
	t.Helper()
	return startReplicaOn(t, pgtest.Migrated(t), endpoint, change)
}

func startReplicaOn(t *testing.T, database, endpoint string, change func(*Config)) *replica {
	t.Helper()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20" + headerSecret,
		"OTEL_SERVICE_NAME": "agents", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
		"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "", "OTEL_TRACES_SAMPLER": "", "OTEL_SDK_DISABLED": "",
	} {
		t.Setenv(name, value)
	}
	r := &replica{t: t, database: database, log: new(logLines)}
	c := Config{
		Listen: "127.0.0.1:0", Sessions: 10, DrainTime: 20 * time.Second, TTL: 3 * time.Second, TenantRate: 1e6, TenantBurst: 1e6, TenantStreams: 10,
		CardTime: time.Hour, Provider: "scripted", Workspaces: t.TempDir(),
	}
	if change != nil {
		change(&c)
	}
	secrets := Secrets{
		DatabaseURL: r.database, SealingKeys: "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		TokenKeys:        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
		CollectorHeaders: []string{os.Getenv("OTEL_EXPORTER_OTLP_HEADERS")},
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := Run(ctx, c, secrets, slog.New(slog.NewJSONHandler(r.log, nil))); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func() {
		cancel()
		<-over
	}
	t.Cleanup(r.stop)
	var address struct{ Address string }
	r.soon("it serves", func() bool {
		select {
		case <-over:
			t.Fatal(r.log)
		default:
		}
		return json.Unmarshal([]byte(r.log.line(`"msg":"serving"`)), &address) == nil
	})
	db, err := store.Open(t.Context(), store.Options{URL: r.database})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if r.key, _, err = gateway.AddKey(t.Context(), db, "acme", 0); err != nil {
		t.Fatal(err)
	}
	r.api = runtimev1connect.NewRuntimeServiceClient(&http.Client{Transport: apikey.Transport{RoundTripper: http.DefaultTransport, Key: r.key}}, "http://"+address.Address)
	r.address = address.Address
	return r
}

func (r *replica) session() string {
	r.t.Helper()
	made, err := r.api.CreateSession(r.t.Context(), connect.NewRequest(&runtimev1.CreateSessionRequest{Agent: "careful"}))
	if err != nil {
		r.t.Fatal(err)
	}
	return made.Msg.GetSession().GetSessionId()
}

// approve says yes to a session's card, once the session waits for it.
func (r *replica) approve(session string) {
	r.t.Helper()
	r.soon("a card", func() bool {
		got, err := r.api.GetSession(r.t.Context(), connect.NewRequest(&runtimev1.GetSessionRequest{SessionId: session}))
		if err != nil {
			r.t.Fatal(err)
		}
		if len(got.Msg.GetOpenApprovals()) == 0 || got.Msg.GetSession().GetState() != runtimev1.SessionState_SESSION_STATE_PARKED {
			return false
		}
		if _, err := r.api.Decide(r.t.Context(), connect.NewRequest(&runtimev1.DecideRequest{
			ApprovalId: got.Msg.GetOpenApprovals()[0].GetApprovalId(), IdempotencyKey: "once", DecidedBy: "PLANTED",
			Verdict: runtimev1.ApprovalVerdict_APPROVAL_VERDICT_APPROVE,
		})); err != nil {
			r.t.Fatal(err)
		}
		return true
	})
}

func (r *replica) settled(submission string) {
	r.t.Helper()
	r.soon("the submission settles", func() bool {
		got, err := r.api.GetSubmission(r.t.Context(), connect.NewRequest(&runtimev1.GetSubmissionRequest{SubmissionId: submission}))
		if err != nil {
			r.t.Fatal(err)
		}
		return got.Msg.GetSubmission().GetState() == runtimev1.SubmissionState_SUBMISSION_STATE_SETTLED
	})
}

func (r *replica) soon(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("not within 60 s: %s\n%s", what, r.log)
		}
	}
}

// submit sends an input and waits for its end.
func (r *replica) submit(session, text string) string {
	r.t.Helper()
	made, err := r.api.Submit(r.t.Context(), connect.NewRequest(&runtimev1.SubmitRequest{
		SessionId: session, IdempotencyKey: store.NewID().String(),
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: text}}},
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	id := made.Msg.GetSubmission().GetSubmissionId()
	r.settled(id)
	return id
}

// logLines is what was logged.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is io.Writer's.
func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// line is the first that has the text.
func (l *logLines) line(part string) string {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
