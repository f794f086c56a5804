package swap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
)

const deadline = 30 * time.Second

var (
	oldDigest = "sha256:" + strings.Repeat("1", 64)
	newDigest = "sha256:" + strings.Repeat("2", 64)
	oldImage  = "registry.fly.io/tenant@" + oldDigest
	newImage  = "registry.fly.io/tenant@" + newDigest
)

// lab is a local platform without processes, a client whose traffic is recorded, and an engine.
type lab struct {
	*flylocal.Platform
	t      *testing.T
	client *flyapi.Client
	engine *swap.Engine
	tape   *tape
}

func newLab(t *testing.T, change ...func(*swap.Options)) *lab {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: 2 * time.Millisecond, UnbindDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{Platform: p, t: t, tape: &tape{base: &http.Transport{}}}
	t.Cleanup(func() {
		l.tape.base.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	l.client, err = flyapi.New(flyapi.Config{
		FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Transport: l.tape, Pace: flyapi.PaceOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	opt := swap.Options{Poll: 2 * time.Millisecond, StartGrace: time.Second}
	for _, c := range change {
		c(&opt)
	}
	l.engine = swap.New(l.client, opt)
	return l
}

// tape records what the client sent and got, whole.
type tape struct {
	base  *http.Transport
	mu    sync.Mutex
	calls []taped
	// onSent, when set, is told of each request once the platform has answered it.
	onSent func(taped)
}

type taped struct {
	method, path, query, sent, got string
	status                         int
}

func (t *tape) RoundTrip(req *http.Request) (*http.Response, error) {
	c := taped{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery}
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		c.sent = string(b)
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	c.got, c.status = string(b), resp.StatusCode
	t.mu.Lock()
	t.calls = append(t.calls, c)
	hook := t.onSent
	t.mu.Unlock()
	if hook != nil {
		hook(c)
	}
	return resp, nil
}

func (t *tape) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = nil
}

func (t *tape) hook(fn func(taped)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onSent = fn
}

func (t *tape) find(match func(taped) bool) []taped {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []taped
	for _, c := range t.calls {
		if match(c) {
			out = append(out, c)
		}
	}
	return out
}

// updates are the POSTs that write a new version; writes are they and every other guarded change.
func (t *tape) updates(id string) []taped {
	return t.find(func(c taped) bool { return c.method == "POST" && strings.HasSuffix(c.path, "/machines/"+id) })
}

func (t *tape) to(method, suffix string) []taped {
	return t.find(func(c taped) bool { return c.method == method && strings.HasSuffix(c.path, suffix) })
}

func (t *tape) execs(word string) []taped {
	return t.find(func(c taped) bool { return strings.HasSuffix(c.path, "/exec") && strings.Contains(c.sent, word) })
}

// machine makes an app with one machine of the given config, which must name oldImage, and brings it to a state.
func (l *lab) machine(app, config, state string, cordoned bool) *flyapi.Machine {
	l.t.Helper()
	ctx := l.t.Context()
	if _, err := l.client.CreateApp(ctx, app, l.Org(), app); err != nil {
		l.t.Fatal(err)
	}
	m, err := l.client.CreateMachine(ctx, app, flyapi.CreateRequest{Name: "main", Config: json.RawMessage(config)})
	if err != nil {
		l.t.Fatal(err)
	}
	l.rest(app, m.ID, flyapi.StateStarted)
	switch state {
	case flyapi.StateStopped:
		l.must(l.client.StopMachine(ctx, app, m.ID, flyapi.Lease{}))
	case flyapi.StateSuspended:
		l.must(l.client.SuspendMachine(ctx, app, m.ID, flyapi.Lease{}))
	}
	l.rest(app, m.ID, state)
	if cordoned {
		l.must(l.client.CordonMachine(ctx, app, m.ID, flyapi.Lease{}))
	}
	m = l.get(app, m.ID)
	l.tape.clear()
	return m
}

func plain(extra string) string { return `{"image":"` + oldImage + `"` + extra + `}` }

func (l *lab) rest(app, id, state string) {
	l.t.Helper()
	l.must(l.client.WaitMachine(l.t.Context(), app, id, flyapi.WaitRequest{States: []string{state}, Budget: deadline}))
}

func (l *lab) get(app, id string) *flyapi.Machine {
	l.t.Helper()
	m, err := l.client.GetMachine(l.t.Context(), app, id)
	l.must(err)
	return m
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// on answers the next calls that match in the platform's place.
func (l *lab) on(r faults.Rule) {
	l.t.Helper()
	l.must(l.Faults.Answer(r))
}

func target(m *flyapi.Machine, app string) swap.Target {
	return swap.Target{App: app, Machine: m.ID, Image: newImage, DrainTimeout: deadline, SettleTimeout: deadline, GateTimeout: deadline}
}

// probeLine is the body of an exec answer of a control server.
func probeLine(running int, quiesce string) string {
	line := fmt.Sprintf(`{"wire":{"min":1,"max":1},"build":"0.1.0","state":"serving","epoch":"e","spool":"durable","running":%d,"quiesce":%q}`, running, quiesce)
	body, err := json.Marshal(map[string]any{"exit_code": 0, "stdout": line + "\n", "stderr": ""})
	if err != nil {
		return ""
	}
	return string(body)
}

// wants fails the test unless the outcome and the error agree on status and code.
func wants(t *testing.T, o swap.Outcome, err error, status swap.Status, code swap.Code) {
	t.Helper()
	if o.Status != status || o.Code != code || (err == nil) != o.Done() {
		t.Fatalf("outcome %+v, error %v; want %s %s", o, err, status, code)
	}
}
