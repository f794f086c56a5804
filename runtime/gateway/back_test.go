package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/upstream"
)

// TestMain lets the test's own program be what a command runs: callBack.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "call-back" {
		callBack(os.Stdout, os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// callBack is a program on a machine: METHOD, path, body and key. It prints what it was answered, and asks again where that says
// so.
func callBack(out io.Writer, args []string) {
	args = append(args, "", "")
	for range 100 {
		req, err := http.NewRequestWithContext(context.Background(), args[0], os.Getenv(driver.URLVariable)+args[1], strings.NewReader(args[2]))
		if err != nil {
			fmt.Fprintln(out, err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+os.Getenv(machinetoken.Variable))
		if args[3] != "" {
			req.Header.Set("Idempotency-Key", args[3])
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable {
			said, _ := io.ReadAll(resp.Body)
			fmt.Fprintf(out, "answer: %d %s %s\n", resp.StatusCode, resp.Header.Get("Flyfleet-Outcome"), said)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Fprintln(out, "no answer")
}

const credential = "tenant-credential-24680"

// seen is a request that an upstream got.
type seen struct {
	*http.Request
	body string
}

// back is a rig whose commands have a way back to an upstream "crm".
type back struct {
	*rig
	// at is the replica that commands reach first.
	at   *face
	keys *machinetoken.Keys
	set  *upstream.Set
	// url is where commands call; it may be moved to another replica.
	front *httptest.Server
	mu    sync.Mutex
	to    http.Handler
	got   []seen
	// reply is what the upstream does; nil answers 200.
	reply http.HandlerFunc
	host  string
}

// newBack takes the upstream's configuration after its url and credential, as JSON members.
func newBack(t *testing.T, config string, rules ...tools.Rule) *back {
	t.Helper()
	b := &back{rig: newRig(t)}
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.got = append(b.got, seen{Request: r, body: string(body)})
		reply := b.reply
		b.mu.Unlock()
		if reply != nil {
			reply(w, r)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(crm.Close)
	b.host = crm.URL
	var err error
	b.set, err = upstream.Parse(fmt.Appendf(nil, `{"upstreams": {"crm": {"url": "%s/v2",
		"credential": {"name": "crm", "header": "Authorization", "template": "Bearer {credential}"}%s}}}`, crm.URL, config))
	b.ok(err)
	b.keys, err = machinetoken.NewKeys(bytes.Repeat([]byte("k"), 32))
	b.ok(err)
	b.agent.Calls, err = b.set.Calls(rules, nil)
	b.ok(err)
	b.at = b.replica()
	b.to = b.at.gateway
	b.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		to := b.to
		b.mu.Unlock()
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(b.front.Close)
	b.change = func(o *driver.Options) { o.WayBack = &driver.WayBack{URL: b.front.URL + "/v1/proxy", Keys: b.keys} }
	return b
}

// replica is another gateway that knows commands.
func (b *back) replica() *face {
	return b.face(func(o *gateway.Options) { o.Proxy = gateway.ProxyOptions{Keys: b.keys, Upstreams: b.set} })
}

func (b *back) reached() []seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]seen(nil), b.got...)
}

// begin submits a script with the tenant's credential. $CALL in it is the program that calls back.
func (b *back) begin(script string) (session, submission string) {
	b.Helper()
	self, err := os.Executable()
	b.ok(err)
	session = b.at.session(b.acme)
	made := b.at.submit(b.acme, session, strings.ReplaceAll(script, "$CALL", self+" call-back"), func(s *runtimev1.SubmitRequest) {
		s.Credentials = map[string]string{"crm": credential}
	})
	return session, made.GetSubmissionId()
}

// idle begins a command that runs until release is called, and gives its token: the test is what runs in it.
func (b *back) idle() (session uuid.UUID, token string, exec uuid.UUID, release func()) {
	b.Helper()
	name, _ := b.begin("run: until test -e over; do sleep 0.05; done\nsay: {{result}}")
	session = uuid.MustParse(name)
	b.soon("the command runs", func() bool {
		all, err := b.store.RunningExecs(b.Context(), session)
		b.ok(err)
		if len(all) == 1 {
			exec = all[0].ID
		}
		return len(all) == 1
	})
	return session, b.keys.Token(exec, machinetoken.Claim{Machine: "local"}), exec, func() { b.touch(session, "over") }
}

func (b *back) touch(session uuid.UUID, name string) {
	b.ok(os.WriteFile(filepath.Join(b.dir, session.String(), name), nil, 0o600))
}

// said is an answer to a command.
type said struct {
	status  int
	outcome string
	body    string
	header  http.Header
}

// call asks as a program in a command would.
func (b *back) call(token, method, path, body, key string, change ...func(*http.Request)) said {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, b.front.URL+"/v1/proxy"+path, strings.NewReader(body))
	b.ok(err)
	req.Header.Set("Authorization", "Bearer "+token)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	b.ok(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	b.ok(err)
	return said{status: resp.StatusCode, outcome: resp.Header.Get("Flyfleet-Outcome"), body: string(text), header: resp.Header}
}

// impatient does not wait for an answer.
func impatient(r *http.Request) { r.Header.Set("Prefer", "wait=0") }

// result is what the session's model was told last.
func (b *back) result(session string) string {
	b.Helper()
	entries, err := b.store.Load(b.Context(), "acme", uuid.MustParse(session), 0, 0)
	b.ok(err)
	text := ""
	for _, e := range entries {
		if r := e.Body.GetToolResult(); r != nil && !strings.Contains(r.GetCallId(), "/") {
			text = string(r.GetContent())
		}
	}
	return text
}

func (b *back) cards() []store.Approval {
	b.Helper()
	cards, err := b.store.Pending(b.Context(), "acme", uuid.Nil, 10)
	b.ok(err)
	return cards
}

func (b *back) decide(card store.Approval, approve bool) {
	b.Helper()
	_, err := b.store.Decide(b.Context(), store.Decision{Tenant: "acme", Approval: card.ID, Key: card.ID.String(), Approve: approve, By: "ann"})
	b.ok(err)
}

func (b *back) parked(session string) []store.Approval {
	b.Helper()
	b.soon("the session is parked", func() bool {
		now, err := b.store.Session(b.Context(), "acme", uuid.MustParse(session))
		b.ok(err)
		return now.State == store.SessionParked
	})
	return b.cards()
}
