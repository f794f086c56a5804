package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// rig is a database, with as many gateways and executors as a test wants, that work on this computer.
type rig struct {
	*testing.T
	url    string
	store  *store.Store
	places *driver.Local
	agent  driver.Agent
	sealer secrets.Sealer
	known  []string
	log    *journalOfLogs
	// dir is where the sessions' directories are; machines, when it is not nil, is where they work instead of places.
	dir      string
	machines driver.Machines
	// change alters the executors' drivers, waiting is their executors' WaitingEvery.
	change  func(*driver.Options)
	waiting time.Duration
	// acme and zed are keys of two tenants.
	acme, zed string
}

// journalOfLogs is all that was logged.
type journalOfLogs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *journalOfLogs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *journalOfLogs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const sealingKey = "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func newRig(t *testing.T, rules ...tools.Rule) *rig {
	t.Helper()
	r := &rig{T: t, url: pgtest.Migrated(t), log: &journalOfLogs{}}
	m, err := scripted.New(scripted.Config{})
	r.ok(err)
	registry, err := tools.New(rules, tools.Builtin()...)
	r.ok(err)
	r.agent = driver.Agent{Agent: turn.Agent{Provider: m.Provider(), Model: "test"}, Model: m, Tools: registry}
	for _, tool := range registry.Tools() {
		r.agent.Agent.Tools = append(r.agent.Agent.Tools, model.ToolDef{Name: tool.Name, Description: tool.Description, Schema: tool.Schema})
	}
	r.sealer, err = secrets.ParseKeyring(sealingKey)
	r.ok(err)
	r.store = r.connect()
	r.dir = t.TempDir()
	r.places = driver.NewLocal(r.dir, r.logger())
	t.Cleanup(func() { r.ok(r.places.Close()) })
	r.acme, _, err = gateway.AddKey(t.Context(), r.store, "acme", 0)
	r.ok(err)
	r.zed, _, err = gateway.AddKey(t.Context(), r.store, "zed", 0)
	r.ok(err)
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *rig) connect() *store.Store {
	r.Helper()
	s, err := store.Open(r.Context(), store.Options{URL: r.url, Log: r.logger(), TTL: 3 * time.Second})
	r.ok(err)
	r.Cleanup(s.Close)
	return s
}

// Agent is the rig's.
func (r *rig) Agent(string) (driver.Agent, error) { return r.agent, nil }

// executor runs turns until the test ends, or stop is called, which waits.
func (r *rig) executor() (stop func()) {
	r.Helper()
	s := r.connect()
	d := r.driver(s)
	e, err := executor.New(r.Context(), executor.Options{
		Store: s, Runner: d, Log: r.logger(), BeatEvery: 200 * time.Millisecond, SweepEvery: 200 * time.Millisecond, DrainTime: 20 * time.Second,
		WaitingEvery: r.waiting,
	})
	r.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			r.Error(err)
		}
	})
	r.Cleanup(stop)
	return stop
}

func (r *rig) driver(s *store.Store) *driver.Driver {
	r.Helper()
	o := driver.Options{Store: s, Agents: r, Machines: r.places, Sealer: r.sealer, Known: r.known, Log: r.logger()}
	if r.machines != nil {
		o.Machines = r.machines
	}
	if r.change != nil {
		r.change(&o)
	}
	d, err := driver.New(o)
	r.ok(err)
	return d
}

// owner works on a session as a replica that dies without a word when kill is called.
func (r *rig) owner() (kill func()) {
	r.Helper()
	s := r.connect()
	e, err := s.Register(r.Context(), "doomed", "test")
	r.ok(err)
	var claims []store.Claim
	r.soon("a session is claimed", func() bool {
		r.ok(s.Beat(r.Context(), e))
		claims, err = s.Claim(r.Context(), e, 1)
		r.ok(err)
		return len(claims) == 1
	})
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = r.driver(s).Run(ctx, claims[0], nil) })
	parts.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = s.Beat(ctx, e)
			case <-ctx.Done():
				return
			}
		}
	})
	kill = sync.OnceFunc(func() {
		cancel()
		parts.Wait()
	})
	r.Cleanup(kill)
	return kill
}

// sql changes rows behind everybody's back.
func (r *rig) sql(text string) {
	r.Helper()
	conn, err := pgx.Connect(r.Context(), r.url)
	r.ok(err)
	defer conn.Close(context.Background()) //nolint:errcheck // nothing is left to be said
	_, err = conn.Exec(r.Context(), text)
	r.ok(err)
}

// face is a replica's gateway, as a server.
type face struct {
	*rig
	*httptest.Server
	gateway *gateway.Gateway
	stop    func()
}

func (r *rig) face(changes ...func(*gateway.Options)) *face {
	r.Helper()
	o := gateway.Options{
		Store: r.connect(), Sealer: r.sealer, Log: r.logger(),
		Door: gateway.DoorOptions{Rates: gateway.Rates{PerSecond: 1e6, Burst: 1e6, Streams: 1e6}},
	}
	for _, change := range changes {
		change(&o)
	}
	g, err := gateway.New(o)
	r.ok(err)
	f := &face{rig: r, gateway: g, Server: httptest.NewUnstartedServer(g)}
	f.Config.ErrorLog = slog.NewLogLogger(r.logger().Handler(), slog.LevelWarn)
	f.EnableHTTP2 = true
	f.StartTLS()
	f.stop = sync.OnceFunc(func() {
		g.Close()
		f.CloseClientConnections()
		f.Close()
	})
	r.Cleanup(f.stop)
	return f
}

func (f *face) keyed(key string) *http.Client {
	return &http.Client{Transport: apikey.Transport{RoundTripper: f.Client().Transport, Key: key}}
}

func (f *face) client(key string) runtimev1connect.RuntimeServiceClient {
	return runtimev1connect.NewRuntimeServiceClient(f.keyed(key), f.URL)
}

func (f *face) session(key string) string {
	f.Helper()
	made, err := f.client(key).CreateSession(f.Context(), connect.NewRequest(&runtimev1.CreateSessionRequest{Agent: "coder"}))
	f.ok(err)
	return made.Msg.GetSession().GetSessionId()
}

func text(s string) []*runtimev1.InputPart {
	return []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: s}}}
}

func (f *face) submit(key, session, words string, changes ...func(*runtimev1.SubmitRequest)) *runtimev1.Submission {
	f.Helper()
	req := &runtimev1.SubmitRequest{SessionId: session, IdempotencyKey: uuid.NewString(), Parts: text(words)}
	for _, change := range changes {
		change(req)
	}
	made, err := f.client(key).Submit(f.Context(), connect.NewRequest(req))
	f.ok(err)
	return made.Msg.GetSubmission()
}

func (f *face) settled(key, submission string) *runtimev1.Submission {
	f.Helper()
	var now *runtimev1.Submission
	f.soon("the submission settles", func() bool {
		got, err := f.client(key).GetSubmission(f.Context(), connect.NewRequest(&runtimev1.GetSubmissionRequest{SubmissionId: submission}))
		f.ok(err)
		now = got.Msg.GetSubmission()
		return now.GetState() == runtimev1.SubmissionState_SUBMISSION_STATE_SETTLED
	})
	return now
}

// card waits for a session's card.
func (f *face) card(key, session string) *runtimev1.Approval {
	f.Helper()
	var card *runtimev1.Approval
	f.soon("a card", func() bool {
		got, err := f.client(key).GetSession(f.Context(), connect.NewRequest(&runtimev1.GetSessionRequest{SessionId: session}))
		f.ok(err)
		if cards := got.Msg.GetOpenApprovals(); len(cards) > 0 && got.Msg.GetSession().GetState() == runtimev1.SessionState_SESSION_STATE_PARKED {
			card = cards[0]
		}
		return card != nil
	})
	return card
}

// soon polls until something holds.
func (r *rig) soon(what string, holds func() bool) {
	r.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("not within three minutes: %s\n%s", what, r.log)
		}
	}
}

// watcher is one SSE connection.
type watcher struct {
	body  io.ReadCloser
	lines *bufio.Reader
	// last is the id of the last event that had one.
	last string
}

func (f *face) watch(key, session, query, lastID string) *watcher {
	f.Helper()
	w, err := f.connectTo(f.Client(), key, session, query, lastID)
	f.ok(err)
	return w
}

func (f *face) connectTo(c *http.Client, key, session, query, lastID string) (*watcher, error) {
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.URL+"/v1/sessions/"+session+"/events"+query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body)
		return nil, &refusal{status: resp.StatusCode, text: string(said)}
	}
	return &watcher{body: resp.Body, lines: bufio.NewReader(resp.Body)}, nil
}

type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return http.StatusText(r.status) + ": " + r.text }

// next is the next event that has an id; nil at the end.
func (w *watcher) next() *runtimev1.StreamEventsResponse {
	id, data := "", ""
	for {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			return nil
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case name == "" && id != "":
			e := new(runtimev1.StreamEventsResponse)
			if protojson.Unmarshal([]byte(data), e) != nil || e.GetCursor() != id {
				return nil
			}
			w.last = id
			return e
		}
	}
}

func (w *watcher) close() { _ = w.body.Close() }

// until reads events until one holds, or the stream ends.
func (w *watcher) until(holds func(*runtimev1.StreamEventsResponse) bool) []*runtimev1.StreamEventsResponse {
	var all []*runtimev1.StreamEventsResponse
	for {
		e := w.next()
		if e == nil {
			return all
		}
		if all = append(all, e); holds(e) {
			return all
		}
	}
}

func isSettled(e *runtimev1.StreamEventsResponse) bool {
	return e.GetEntry().GetBody().GetSubmissionSettled() != nil
}

// newID is a fresh client's id, or the one given.
func newID(t *testing.T, id string) string {
	t.Helper()
	if id != "" {
		return id
	}
	return store.NewID().String()
}
