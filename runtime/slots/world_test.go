package slots_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

const (
	fleet  = "fleet"
	pool   = "warm"
	digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
)

// world is a platform, a database and a fleet's keys, for some replicas.
type world struct {
	*testing.T
	p    *flylocal.Platform
	api  *flyapi.Client
	url  string
	root token.Root
	key  token.SigningKey
	// dial is how machines are reached; nil says hello for all of them.
	dial transport.DialFunc
}

func newWorld(t *testing.T, change ...func(*flylocal.Options)) *world {
	t.Helper()
	o := flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: time.Millisecond, UnbindDelay: time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	p, err := flylocal.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	carrier := &http.Transport{}
	t.Cleanup(func() {
		carrier.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w := &world{T: t, p: p, url: pgtest.Migrated(t)}
	w.api, err = flyapi.New(flyapi.Config{FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Transport: carrier, Pace: flyapi.PaceOff})
	w.ok(err)
	w.root, err = token.NewRoot(fleet)
	w.ok(err)
	w.key, err = w.root.Delegate("rt-test", []string{"*"}, time.Hour, time.Now())
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// machine makes an app with a machine of these metadata, besides the fleet's.
func (w *world) machine(app string, metadata ...string) string {
	w.Helper()
	if _, err := w.api.CreateApp(w.Context(), app, w.p.Org(), app+"-net"); err != nil && !flyapi.IsNameTaken(err) {
		w.Fatal(err)
	}
	all := map[string]string{"flyfleet_fleet": fleet}
	for i := 0; i+1 < len(metadata); i += 2 {
		all[metadata[i]] = metadata[i+1]
	}
	config, err := json.Marshal(map[string]any{"image": "registry.fly.io/x@" + digest, "metadata": all})
	w.ok(err)
	m, err := w.api.CreateMachine(w.Context(), app, flyapi.CreateRequest{Name: "main-" + uuid.NewString()[:8], Config: config})
	w.ok(err)
	w.ok(w.api.WaitMachine(w.Context(), app, m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}))
	return m.ID
}

func (w *world) live(app, id string) *flyapi.Machine {
	w.Helper()
	m, err := w.api.GetMachine(w.Context(), app, id)
	w.ok(err)
	return m
}

// fault disturbs the next calls.
func (w *world) fault(r faults.Rule) {
	w.Helper()
	w.ok(w.p.Faults.Answer(r))
}

// asked counts the calls whose method and path hold the texts.
func (w *world) asked(method, path string) int {
	n := 0
	for _, r := range w.p.Faults.Requests(0) {
		if r.Method == method && strings.Contains(r.Path, path) {
			n++
		}
	}
	return n
}

// sql changes the database behind everybody's back.
func (w *world) sql(statement string) {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.url)
	w.ok(err)
	defer func() { _ = conn.Close(w.Context()) }()
	_, err = conn.Exec(w.Context(), statement)
	w.ok(err)
}

// elapse lets all sessions and machines have been idle since an hour earlier.
func (w *world) elapse() {
	w.Helper()
	w.sql("UPDATE sessions SET touched_at = touched_at - interval '1 hour'; UPDATE machines SET idle_at = idle_at - interval '1 hour'")
}

// replica is one runtime.
type replica struct {
	*world
	store    *store.Store
	slots    *slots.Slots
	executor *store.Executor
}

func (w *world) replica(change ...func(*slots.Options)) *replica {
	w.Helper()
	r := &replica{world: w}
	var err error
	r.store, err = store.Open(w.Context(), store.Options{URL: w.url})
	w.ok(err)
	w.Cleanup(r.store.Close)
	dial := w.dial
	if dial == nil {
		dial = newGreeter(w).dial
	}
	o := slots.Options{
		Store: r.store, API: w.api, Key: w.key, Dial: dial, PerMachine: 2, Boot: 30 * time.Second, IdleAfter: 30 * time.Minute,
	}
	for _, c := range change {
		c(&o)
	}
	r.slots, err = slots.New(o)
	w.ok(err)
	w.Cleanup(func() { w.ok(r.slots.Close()) })
	r.executor, err = r.store.Register(w.Context(), "here", "test")
	w.ok(err)
	return r
}

func withPool(o *slots.Options) { o.Pool = pool }

// turn is a claimed session.
type turn struct {
	*replica
	claim store.Claim
	last  int64
}

// begin makes a session of a tenant and claims it.
func (r *replica) begin(tenant string) *turn {
	r.Helper()
	id := store.NewID()
	_, err := r.store.CreateSession(r.Context(), tenant, "agent", id)
	r.ok(err)
	_, err = r.store.Submit(r.Context(), store.Input{Tenant: tenant, Session: id, Key: "k"})
	r.ok(err)
	t := &turn{replica: r, last: 1}
	t.claim = r.claimed(id)
	return t
}

// claimed claims a session, and gives back others.
func (r *replica) claimed(id uuid.UUID) store.Claim {
	r.Helper()
	var got *store.Claim
	eventually(r, "the session is claimed", func() bool {
		claims, err := r.store.Claim(r.Context(), r.executor, 1)
		r.ok(err)
		for _, c := range claims {
			if c.Session == id {
				got = &c
			}
		}
		return got != nil
	})
	return *got
}

// takeOver lets another replica go on with the session.
func (t *turn) takeOver(by *replica) *turn {
	t.Helper()
	t.ok(t.store.Release(t.Context(), t.claim, 0))
	return &turn{replica: by, claim: by.claimed(t.claim.Session), last: t.last}
}

func (t *turn) open() (driver.Place, error) {
	t.Helper()
	place, err := t.slots.Open(t.Context(), t.claim)
	if place.Close != nil {
		t.Cleanup(place.Close)
	}
	return place, err
}

func (t *turn) mustOpen() driver.Place {
	t.Helper()
	place, err := t.open()
	t.ok(err)
	return place
}

// start commits the start of a command at a place, and gives its id.
func (t *turn) start(place driver.Place) (uuid.UUID, error) {
	t.Helper()
	id := store.NewID()
	call := id.String()
	sum := sha256.Sum256([]byte(call))
	_, err := t.store.Commit(t.Context(), t.claim, store.Step{
		After: t.last,
		Entries: []journal.Entry{{Body: &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: &journalv1.ToolCalled{
			CallId: call, Tool: "exec", Class: journalv1.EffectClass_EFFECT_CLASS_ATTACHED, Policy: journalv1.Policy_POLICY_ALLOW,
		}}}}},
		Intend: []store.Effect{{Call: call, Class: journalv1.EffectClass_EFFECT_CLASS_ATTACHED, Tool: "exec", ArgsSHA256: sum[:]}},
	})
	t.ok(err)
	t.last++
	_, err = t.store.Commit(t.Context(), t.claim, store.Step{
		After: t.last,
		Entries: []journal.Entry{
			{Body: &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: call}}}},
			{Body: &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{CallId: call, ExecId: call, Machine: place.Machine}}}},
		},
		Start: []store.Start{{Call: call, ArgsSHA256: sum[:]}}, Slot: place.Slot,
		Execs: []store.Exec{{ID: id, Call: call, Machine: place.Machine}},
	})
	if err == nil {
		t.last += 2
	}
	return id, err
}

// ended commits the end of a command.
func (t *turn) ended(id uuid.UUID) {
	t.Helper()
	_, err := t.store.Commit(t.Context(), t.claim, store.Step{
		After:    t.last,
		Entries:  []journal.Entry{{Body: &journalv1.Body{Body: &journalv1.Body_ExecExited{ExecExited: &journalv1.ExecExited{CallId: id.String(), ExecId: id.String()}}}}},
		ExecEnds: []store.ExecEnd{{ID: id}},
	})
	t.ok(err)
	t.last++
}

// idle gives the session up, with nothing to do.
func (t *turn) idle() {
	t.Helper()
	t.sql(fmt.Sprintf("UPDATE submissions SET state = 5 WHERE session_id = '%s'", t.claim.Session))
	parked, err := t.store.Park(t.Context(), t.claim)
	t.ok(err)
	if !parked {
		t.Fatal("the session has something to do")
	}
}

// greeter stands in for all machines: it proves tokens as they do, says hello, and lets flycast's work be done by the API.
type greeter struct {
	wirev1connect.UnimplementedControlServiceHandler
	w      *world
	server *httptest.Server

	mu sync.Mutex
	// silent makes connections fail.
	silent bool
	dialed []string
}

func newGreeter(w *world) *greeter {
	g := &greeter{w: w}
	mux := http.NewServeMux()
	path, handler := wirev1connect.NewControlServiceHandler(g)
	mux.Handle(path, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), hostKey{}, r.Host)))
	}))
	g.server = httptest.NewUnstartedServer(mux)
	g.server.Config.Protocols = new(http.Protocols)
	g.server.Config.Protocols.SetUnencryptedHTTP2(true)
	g.server.Start()
	w.Cleanup(g.server.Close)
	return g
}

type hostKey struct{}

func (g *greeter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	g.dialed = append(g.dialed, address)
	silent := g.silent
	g.mu.Unlock()
	if silent {
		return nil, errors.New("nobody is there")
	}
	return new(net.Dialer).DialContext(ctx, network, g.server.Listener.Addr().String())
}

func (g *greeter) Hello(ctx context.Context, r *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	host, _, err := net.SplitHostPort(ctx.Value(hostKey{}).(string))
	if err != nil {
		return nil, err
	}
	list, err := g.w.api.ListOrgMachines(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range list {
		if row.App+".flycast" != host && row.ID+".vm."+row.App+".internal" != host {
			continue
		}
		trust, err := token.ParseTrust(g.w.root.Trust())
		if err != nil {
			return nil, err
		}
		if _, err := trust.Verify(strings.TrimPrefix(r.Header().Get("Authorization"), "Bearer "), row.App, row.ID, time.Now()); err != nil {
			return nil, connect.NewError(connect.CodeUnauthenticated, err)
		}
		if row.State != flyapi.StateStarted {
			if err := g.w.api.StartMachine(ctx, row.App, row.ID, flyapi.Lease{}); err != nil {
				return nil, connect.NewError(connect.CodeUnavailable, err)
			}
			if err := g.w.api.WaitMachine(ctx, row.App, row.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}}); err != nil {
				return nil, connect.NewError(connect.CodeUnavailable, err)
			}
		}
		return connect.NewResponse(&wirev1.HelloResponse{App: row.App, Machine: row.ID, Epoch: row.InstanceID, WireVersion: 1, WireMin: 1, WireMax: 1}), nil
	}
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("no such machine"))
}

func isUnavailable(err error) bool {
	unavailable := new(sandbox.UnavailableError)
	return errors.As(err, &unavailable)
}

// eventually polls until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
