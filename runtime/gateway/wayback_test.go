package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// A command reaches an upstream as its tenant, and sees neither the credential nor anything that an upstream would do to it.
func TestCommandReachesAnUpstreamWithoutSeeingTheCredential(t *testing.T) {
	b := newBack(t, `, "policy": "allow", "idempotency_header": "Idempotency-Key"`)
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("ETag", `"`+r.Header.Get("Authorization")+`"`)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "made by %s", r.Header.Get("Authorization"))
	}
	b.executor()
	session, submission := b.begin(`run: $CALL POST "/crm/contacts?x=1" hello; env
say: {{result}}`)
	b.at.settled(b.acme, submission)
	got := b.reached()
	if len(got) != 1 || got[0].Method != http.MethodPost || got[0].URL.String() != "/v2/contacts?x=1" || got[0].body != "hello" {
		t.Fatalf("the upstream got %+v", got)
	}
	if a := got[0].Header.Get("Authorization"); a != "Bearer "+credential {
		t.Errorf("it was asked as %q", a)
	}
	if key := got[0].Header.Get("Idempotency-Key"); !strings.HasPrefix(key, session+"/") {
		t.Errorf("under the key %q", key)
	}
	result := b.result(session)
	if !strings.Contains(result, "answer: 201 ok made by Bearer [secret]") {
		t.Errorf("the command was answered %s", result)
	}
	if !strings.Contains(result, driver.URLVariable+"="+b.front.URL) || !strings.Contains(result, machinetoken.Variable+"=[secret]") || strings.Contains(result, "ffm1.") {
		t.Errorf("its environment is %s", result)
	}
	var all bytes.Buffer
	all.WriteString(result)
	all.WriteString(b.log.String())
	conn := b.tablesOf(t, "contacts")
	all.Write(conn)
	for _, secret := range []string{credential, "ffm1."} {
		if at := bytes.Index(all.Bytes(), []byte(secret)); at >= 0 {
			t.Errorf("%q is in …%s…", secret, all.Bytes()[max(0, at-100):min(all.Len(), at+100)])
		}
	}
}

// UKGovernmentBEIS/inspect_ai#4944: what a process in a sandbox asks for itself meets the policy that the agent's own calls meet,
// and an approval is for the bytes that were shown, once.
func TestSandboxedProcessMeetsThePolicy(t *testing.T) {
	b := newBack(t, `, "policy": "deny", "rules": [
		{"methods": ["GET"], "path": "/contacts/**", "policy": "allow"},
		{"methods": ["POST"], "path": "/contacts", "policy": "ask"},
		{"path": "/open/**", "policy": "allow"}]`,
		tools.Rule{Tool: "proxy_crm", Arg: "request", Match: regexp.MustCompile("^DELETE "), Policy: journalv1.Policy_POLICY_DENY})
	b.executor()
	session, token, _, release := b.idle()
	defer release()
	if got := b.call(token, "GET", "/crm/contacts/7", "", ""); got.status != 200 || got.body != "GET /v2/contacts/7" {
		t.Errorf("what is allowed: %+v", got)
	}
	before := len(b.reached())
	for _, path := range []string{"/crm/admin", "/crm/%61dmin", "/crm/contacts%2f..%2fadmin", "/crm/contacts/%2e%2e/admin", "/crm/contacts//x", "/crm/contacts/..;/admin"} {
		for _, method := range []string{"GET", "POST"} {
			if got := b.call(token, method, path, "", ""); got.status != 403 && got.status != 400 {
				t.Errorf("%s %s: %+v", method, path, got)
			}
		}
	}
	// The agent's own rule is stricter than the upstream's.
	if got := b.call(token, "DELETE", "/crm/open/1", "", ""); got.status != 403 || got.outcome != "denied" {
		t.Errorf("what the agent may not do: %+v", got)
	}
	if n := len(b.reached()); n != before {
		t.Errorf("%d of those reached the upstream", n-before)
	}

	if got := b.call(token, "POST", "/crm/contacts", "one", "k1", impatient); got.status != 202 {
		t.Fatalf("a gated call: %+v", got)
	}
	var cards []store.Approval
	b.soon("a card", func() bool { cards = b.cards(); return len(cards) == 1 })
	if !strings.Contains(string(cards[0].Summary), `"body":"one"`) || !strings.Contains(string(cards[0].Summary), "POST /contacts") {
		t.Errorf("the card shows %s", cards[0].Summary)
	}
	// Other bytes under the same name are no call, and under another name are another card.
	if got := b.call(token, "POST", "/crm/contacts", "two", "k1", impatient); got.status != 409 {
		t.Errorf("other bytes under one key: %+v", got)
	}
	b.call(token, "POST", "/crm/contacts", "two", "k2", impatient)
	b.soon("another card", func() bool { return len(b.cards()) == 2 })
	b.decide(cards[0], true)
	if got := b.call(token, "POST", "/crm/contacts", "one", "k1"); got.status != 200 {
		t.Errorf("the approved call: %+v", got)
	}
	// Asked again it is the same call, not another start under the approval.
	if got := b.call(token, "POST", "/crm/contacts", "one", "k1"); got.status != 200 {
		t.Errorf("the approved call, again: %+v", got)
	}
	entries, err := b.store.Load(t.Context(), "acme", session, 0, 0)
	b.ok(err)
	titles := ""
	for _, e := range entries {
		titles += string(e.Body.GetToolResult().GetContent()) + "\n"
	}
	if !strings.Contains(titles, "POST /contacts: HTTP 200") || !strings.Contains(titles, "DELETE /open/1: Denied") {
		t.Errorf("the journal says %s", titles)
	}
	after := b.reached()[before:]
	if len(after) != 1 || after[0].body != "one" {
		t.Errorf("the upstream got %+v", after)
	}
	b.decide(b.cards()[0], false)
	if got := b.call(token, "POST", "/crm/contacts", "two", "k2"); got.status != 403 || got.outcome != "denied" || len(b.reached()) != before+1 {
		t.Errorf("the denied call: %+v", got)
	}
}

// UsefulSoftwareCo/executor#1437: a card that is open for longer than the command may run does not end the command, and what is
// approved reaches it, though its session was parked and other replicas go on with it.
func TestApprovedCallReachesALiveCommandThoughItsTimeWasOver(t *testing.T) {
	b := newBack(t, `, "idempotency_header": "Idempotency-Key"`)
	b.waiting = 300 * time.Millisecond
	change := b.change
	// The hold must be renewed within the time of the card, too.
	b.change = func(o *driver.Options) { change(o); o.HoldTime = 4 * time.Second }
	stop := b.executor()
	session, submission := b.begin(`call: exec {"command": "$CALL POST /crm/contacts hello", "timeout_seconds": 2}
say: {{result}}`)
	cards := b.parked(session)
	since := time.Now()
	if len(cards) != 1 || len(b.reached()) != 0 {
		t.Fatalf("%d cards, the upstream got %+v", len(cards), b.reached())
	}
	b.soon("the time is over three times", func() bool { return time.Since(since) > 7*time.Second })
	stop()
	b.executor()
	b.parked(session)
	b.decide(cards[0], true)
	b.at.settled(b.acme, submission)
	if result := b.result(session); !strings.Contains(result, "answer: 200 ok POST /v2/contacts") || !strings.Contains(result, "exit code 0") {
		t.Errorf("the command ended with %s", result)
	}
	if got := b.reached(); len(got) != 1 {
		t.Errorf("the upstream got %+v", got)
	}
}

// A command that ends while its session is parked is noticed without anybody deciding, and its card closes.
func TestCommandThatEndsWhileItsSessionIsParkedIsNoticed(t *testing.T) {
	b := newBack(t, "")
	b.waiting = 300 * time.Millisecond
	b.executor()
	session, submission := b.begin("run: ($CALL POST /crm/contacts hello >/dev/null 2>&1 &) ; until test -e over; do sleep 0.05; done; echo gone\nsay: {{result}}")
	cards := b.parked(session)
	b.touch(uuid.MustParse(session), "over")
	b.at.settled(b.acme, submission)
	if result := b.result(session); !strings.Contains(result, "gone\n") {
		t.Errorf("the command ended with %s", result)
	}
	card, err := b.store.Approval(t.Context(), "acme", cards[0].ID)
	b.ok(err)
	if card.State != store.ApprovalDenied || card.By != turn.ByEnd || len(b.reached()) != 0 {
		t.Errorf("the card is %s by %s, the upstream got %+v", card.State, card.By, b.reached())
	}
}

// An answer says how long it is: else its end is sent when its request is over, and a replica that dies before that leaves a command
// that was told everything and has to ask again.
func TestAnswerHasItsEndWithItsLastByte(t *testing.T) {
	b := newBack(t, `, "policy": "allow", "rules": [{"path": "/denied", "policy": "deny"}]`)
	b.reply = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2/full":
			fmt.Fprint(w, "done")
		case "/v2/none":
			w.WriteHeader(http.StatusNoContent)
		}
	}
	b.executor()
	_, token, _, release := b.idle()
	defer release()
	for _, c := range []struct{ method, path, length string }{
		{"POST", "/crm/full", "4"}, {"POST", "/crm/empty", "0"}, {"POST", "/crm/none", ""}, {"HEAD", "/crm/full", ""},
	} {
		if got := b.call(token, c.method, c.path, "", ""); got.header.Get("Content-Length") != c.length || got.outcome != "ok" {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
	}
	if got := b.call(token, "POST", "/crm/denied", "", ""); got.outcome != "denied" || got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
		t.Errorf("a denied call: %+v", got)
	}
}

// An owner that dies while an upstream works: where keys are honoured the call is sent again under its key, else never.
func TestOwnerThatDiesInACallSendsItOnce(t *testing.T) {
	for name, c := range map[string]struct {
		config, answer string
		sent           int
	}{
		"opaque": {`, "policy": "allow"`, "answer: 502 unknown", 1},
		"keyed":  {`, "policy": "allow", "idempotency_header": "Idempotency-Key"`, "answer: 200 ok done", 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBack(t, c.config)
			hang := make(chan struct{})
			b.reply = func(w http.ResponseWriter, r *http.Request) {
				if len(b.reached()) == 1 {
					select {
					case <-hang:
					case <-r.Context().Done():
					}
				}
				fmt.Fprint(w, "done")
			}
			t.Cleanup(sync.OnceFunc(func() { close(hang) }))
			session, submission := b.begin("run: $CALL POST /crm/contacts hello\nsay: {{result}}")
			kill := b.owner()
			b.soon("the upstream is asked", func() bool { return len(b.reached()) == 1 })
			kill()
			b.executor()
			b.at.settled(b.acme, submission)
			if result := b.result(session); !strings.Contains(result, c.answer) {
				t.Errorf("the command was answered %s", result)
			}
			got := b.reached()
			if len(got) != c.sent {
				t.Fatalf("the upstream was asked %d times", len(got))
			}
			if c.sent == 2 && (got[0].Header.Get("Idempotency-Key") == "" || got[0].Header.Get("Idempotency-Key") != got[1].Header.Get("Idempotency-Key")) {
				t.Errorf("under the keys %q and %q", got[0].Header.Get("Idempotency-Key"), got[1].Header.Get("Idempotency-Key"))
			}
		})
	}
}

// A command whose replica stops while it waits asks another, and it is the same call.
func TestRequestThatIsSentAgainIsTheSameCall(t *testing.T) {
	b := newBack(t, "")
	b.executor()
	session, submission := b.begin("run: $CALL POST /crm/contacts hello\nsay: {{result}}")
	cards := b.parked(session)
	other := b.replica()
	b.mu.Lock()
	b.to = other.gateway
	b.mu.Unlock()
	b.at.gateway.Close()
	b.decide(cards[0], true)
	b.at = other
	b.at.settled(b.acme, submission)
	if result := b.result(session); !strings.Contains(result, "answer: 200 ok POST /v2/contacts") {
		t.Errorf("the command was answered %s", result)
	}
	if got := b.reached(); len(got) != 1 {
		t.Errorf("the upstream was asked %d times", len(got))
	}
}

// Equal requests without a key are one call until it was answered, and another one then.
func TestEqualRequestsAfterAnAnswerAreTwoCalls(t *testing.T) {
	b := newBack(t, `, "policy": "allow"`)
	b.executor()
	_, token, _, release := b.idle()
	defer release()
	first := b.call(token, "POST", "/crm/contacts", "x", "")
	second := b.call(token, "POST", "/crm/contacts", "x", "")
	named := b.call(token, "POST", "/crm/contacts", "x", "k")
	if again := b.call(token, "POST", "/crm/contacts", "x", "k"); again.header.Get("Flyfleet-Call") != named.header.Get("Flyfleet-Call") {
		t.Errorf("one key is two calls")
	}
	if first.header.Get("Flyfleet-Call") == second.header.Get("Flyfleet-Call") || len(b.reached()) != 3 {
		t.Errorf("%s and %s; the upstream was asked %d times", first.header.Get("Flyfleet-Call"), second.header.Get("Flyfleet-Call"), len(b.reached()))
	}
}

// Only a running command's own token opens the door, and nothing of a stranger's request is waited for.
func TestOnlyARunningCommandsTokenOpensTheWayBack(t *testing.T) {
	b := newBack(t, `, "policy": "allow"`)
	b.executor()
	session, token, exec, release := b.idle()
	refused := func(what, token string) {
		t.Helper()
		body, hold := io.Pipe()
		defer func() { b.ok(hold.Close()) }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.front.URL+"/v1/proxy/crm/contacts", body)
		b.ok(err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultTransport.RoundTrip(req)
		b.ok(err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: HTTP %d", what, resp.StatusCode)
		}
	}
	other, err := machinetoken.NewKeys(bytes.Repeat([]byte("x"), 32))
	b.ok(err)
	refused("no token", "")
	refused("an API key", b.acme)
	refused("another key's token", other.Token(exec, machinetoken.Claim{Machine: "local"}))
	refused("another machine's", b.keys.Token(exec, machinetoken.Claim{Machine: "elsewhere"}))
	refused("another slot's", b.keys.Token(exec, machinetoken.Claim{Machine: "local", Slot: 1}))
	refused("another command's", b.keys.Token(store.NewID(), machinetoken.Claim{Machine: "local"}))
	if got := b.call(token, "POST", "/crm/contacts", "", ""); got.status != 200 {
		t.Errorf("its own: %+v", got)
	}
	if got := b.call(token, "POST", "/hr/contacts", "", ""); got.status != 404 {
		t.Errorf("an upstream that is not there: %+v", got)
	}
	if got := b.call(token, "POST", "/crm/contacts", strings.Repeat("x", 1<<20+1), ""); got.status != 400 {
		t.Errorf("a body that is too long: HTTP %d", got.status)
	}
	release()
	b.soon("the command has ended", func() bool {
		all, err := b.store.RunningExecs(t.Context(), session)
		b.ok(err)
		return len(all) == 0
	})
	refused("an ended command's", token)
	if n := len(b.reached()); n != 1 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// A token dies with the slot that it was given under, though the command runs on.
func TestTokenDiesWithTheSlot(t *testing.T) {
	b := newBack(t, `, "policy": "allow"`)
	b.ok(b.store.PutMachine(t.Context(), store.Machine{ID: "m1", App: "a", Tenant: "acme"}, 2))
	b.machines = slotted{b.places}
	b.executor()
	session, _, exec, release := b.idle()
	defer release()
	held, has, err := b.store.SlotOf(t.Context(), session)
	b.ok(err)
	if !has || held.Machine != "m1" {
		t.Fatalf("the session holds %+v", held)
	}
	token := b.keys.Token(exec, machinetoken.ClaimOf(held))
	if got := b.call(token, "GET", "/crm/a", "", ""); got.status != 200 {
		t.Errorf("its own: %+v", got)
	}
	neighbour := machinetoken.ClaimOf(held)
	neighbour.Slot = 3 - neighbour.Slot
	if got := b.call(b.keys.Token(exec, neighbour), "GET", "/crm/a", "", ""); got.status != 401 {
		t.Errorf("another slot's: %+v", got)
	}
	if got := b.call(b.keys.Token(exec, machinetoken.Claim{Machine: "m1"}), "GET", "/crm/a", "", ""); got.status != 401 {
		t.Errorf("one without a slot: %+v", got)
	}
	b.sql("UPDATE machine_slots SET session_id = NULL, fence = NULL, claimed_at = NULL")
	if got := b.call(token, "GET", "/crm/a", "", ""); got.status != 401 {
		t.Errorf("after the slot was given back: %+v", got)
	}
}

// slotted is a place with slots.
type slotted struct{ *driver.Local }

func (s slotted) Open(ctx context.Context, claim store.Claim) (driver.Place, error) {
	place, err := s.Local.Open(ctx, claim)
	place.Machine, place.Slot = "m1", &store.Slot{Machine: "m1"}
	return place, err
}

// A tenant without the credential is told so, and the upstream is not asked.
func TestCallWithoutItsCredentialIsNotSent(t *testing.T) {
	b := newBack(t, `, "policy": "allow"`)
	b.executor()
	self, err := os.Executable()
	b.ok(err)
	session := b.at.session(b.acme)
	made := b.at.submit(b.acme, session, "run: "+self+" call-back POST /crm/a x\nsay: {{result}}")
	b.at.settled(b.acme, made.GetSubmissionId())
	if result := b.result(session); !strings.Contains(result, "answer: 502 failed") || !strings.Contains(result, "brought no credential") || len(b.reached()) != 0 {
		t.Errorf("the command was answered %s; the upstream got %d", result, len(b.reached()))
	}
}

// What one command has open is bounded.
func TestCommandThatAsksForTooMuchIsTold(t *testing.T) {
	b := newBack(t, "")
	b.executor()
	_, token, _, release := b.idle()
	defer release()
	statuses := map[int]int{}
	for i := range 70 {
		statuses[b.call(token, "POST", "/crm/a", fmt.Sprint(i), "", impatient).status]++
	}
	if statuses[202] == 0 || statuses[202] > 64 || statuses[429] == 0 || statuses[202]+statuses[429] != 70 {
		t.Errorf("statuses %v", statuses)
	}
}
