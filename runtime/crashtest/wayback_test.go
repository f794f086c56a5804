//go:build linux

package crashtest

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// called is a call that a command makes: the name is its upstream's.
type called struct {
	name string
	// keyed: the service does things once under one key, and the command gives its request a name. Else the service knows no keys,
	// and the request has no name.
	keyed, gated bool
}

var (
	keyed  = called{name: "keyed", keyed: true}
	opaque = called{name: "opaque"}
	gated  = called{name: "gated", gated: true}
)

// window is where a replica dies around a call.
type window struct {
	point string
	// started: its start is in the journal and its result is not. sent: the service has got it, too.
	started, sent bool
	short         []called
}

// worked stands for the death while the service works, which has no point: it comes from without.
const worked = "the service works"

// windows are the places around a call, in its order.
func windows() []window {
	return []window{
		{point: "ask.before"},
		{point: "ask.after", short: []called{opaque}},
		{point: "commit.before.tool_called"},
		{point: "commit.after.tool_called", short: []called{opaque}},
		{point: "commit.before.tool_started"},
		{point: "commit.after.tool_started", started: true, short: []called{opaque}},
		{point: "serve.before", started: true},
		{point: worked, started: true, sent: true, short: []called{opaque}},
		{point: "serve.after", started: true, sent: true, short: []called{keyed}},
		{point: "commit.before.tool_result", started: true, sent: true},
		{point: "commit.after.tool_result", short: []called{opaque}},
		{point: "told.before"},
		{point: "told.after", short: []called{opaque}},
	}
}

// cardWindows are those of a call that a person is asked about.
func cardWindows() []window {
	return []window{
		{point: "commit.before.approval_requested"},
		{point: "commit.after.approval_requested"},
		{point: "park.before"},
		{point: "park.after", short: []called{gated}},
		{point: "commit.before.approval_decided"},
		{point: "commit.after.approval_decided"},
		{point: "commit.after.tool_started", started: true},
		{point: "serve.after", started: true, sent: true},
	}
}

// A command on a machine asks a service through the runtime, and the replica that has taken the call dies: before the row is there,
// before it is in the journal, before it is sent, before its answer is written, before the answer is told, or while a person is asked. The
// command gets one answer. A service that knows keys has one effect; another one has at most one, and none that is called done
// without it, nor one more because the request is sent again. andrewyng/openworker#443.
func TestKilledUnderACommandsCall(t *testing.T) {
	w := startWayBack(t)
	t.Run("points", func(t *testing.T) {
		try := func(c called, at window) {
			run := func(how string, dies func(*testing.T, called, window)) {
				t.Run(c.name+" "+at.point+how, func(t *testing.T) {
					t.Parallel()
					dies(t, c, at)
				})
			}
			if long() || slices.Contains(at.short, c) {
				run("", w.dies)
			}
			if long() {
				run(" twice", w.diesTwice)
				run(" apart", w.diesApart)
			}
		}
		for _, at := range windows() {
			try(keyed, at)
			try(opaque, at)
		}
		for _, at := range cardWindows() {
			try(gated, at)
		}
	})
}

// asking is a trial whose command makes a call.
type asking struct {
	*trial
	way  *wayBack
	call called
	got  got
}

// asks prepares one.
func (w *wayBack) asks(t *testing.T, c called) *asking {
	t.Helper()
	a := &asking{trial: prepared(t, w.machine), way: w, call: c, got: got{keys: map[string]int{}}}
	w.mu.Lock()
	w.trials[a.dir] = a
	w.mu.Unlock()
	upstreams := filepath.Join(filepath.Dir(a.agents), "upstreams.json")
	service := w.service.URL + "/" + a.dir
	const as = `"credential": {"name": "service", "header": "Authorization", "template": "Bearer {credential}"}`
	a.write(upstreams, fmt.Sprintf(`{"upstreams": {
		"keyed": {"url": %q, %s, "policy": "allow", "idempotency_header": "Idempotency-Key"},
		"opaque": {"url": %q, %s, "policy": "allow"},
		"gated": {"url": %q, %s, "policy": "ask"}}}`, service, as, service, as, service, as))
	a.write(a.agents, `{"agents":{"coder":{}}}`)
	a.write(a.script, fmt.Sprintf("run: /%s %s %s/%s\nsay: done\n", callerPath, callerArg, a.dir, c.name))
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	a.env = []string{
		"FLYFLEET_UPSTREAMS=" + upstreams, "FLYFLEET_CALLBACK_URL=http://" + frontAddress + "/" + a.dir,
		"FLYFLEET_TOKEN_KEYS=" + key, "FLYFLEET_SEALING_KEYS=k1:" + key,
	}
	a.credentials = map[string]string{"service": credential}
	if c.gated {
		a.approves()
	}
	return a
}

// runs begins the work and gives its owner, once the command stands before its call: nothing else goes on then.
func (a *asking) runs() *replica {
	a.t.Helper()
	r := a.start()
	client := a.asker()
	client.of(r)
	if err := a.submitBy(client); err != nil {
		a.t.Fatalf("%v\n%s", err, r.log.String())
	}
	a.soon(func() string { return "the command does not begin:\n" + r.log.String() }, a.stands)
	if where := a.onTheMachine("FLYFLEET_PROXY_TOKEN=ffm1[.]"); !strings.Contains(where, "environ") {
		a.t.Errorf("no command's token is found, only %q", where)
	}
	return r
}

// stands says whether the command has said that it is there.
func (a *asking) stands() bool {
	a.t.Helper()
	running, err := a.db.RunningExecs(a.t.Context(), a.session)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, exec := range running {
		said, err := a.db.ReadOutput(a.t.Context(), tenant, exec.ID, store.Stdout, 0, 1)
		if err != nil {
			a.t.Fatal(err)
		}
		if len(said) > 0 {
			return true
		}
	}
	return false
}

// dies lets a replica die at a place of the call, and the next one finish.
func (w *wayBack) dies(t *testing.T, c called, at window) {
	a := w.asks(t, c)
	a.dieFirst(a.runs(), at)
	a.finishCall(at, 1)
}

// diesTwice lets the next one die there too, if it comes there: some places are passed for good.
func (w *wayBack) diesTwice(t *testing.T, c called, at window) {
	a := w.asks(t, c)
	a.dieFirst(a.runs(), at)
	deaths := 2
	next := a.start()
	a.set(next, at.point)
	if !a.diesAt(next, at.point, 1) {
		next.stop()
		a.disarm(at.point)
		deaths = 1
	}
	a.finishCall(at, deaths)
}

// diesApart lets the command ask a replica that is not the session's owner. Who of the two comes there dies, and the other one
// goes on.
func (w *wayBack) diesApart(t *testing.T, c called, at window) {
	a := w.asks(t, c)
	owner, asked := a.runs(), a.start()
	a.soon(func() string { return "it does not serve:\n" + asked.log.String() }, func() bool { return asked.address() != "" })
	lives := asked
	if at.point == worked {
		a.dieFirst(owner, at)
	} else {
		owner.arm(at.point)
		a.put("go", "x")
		select {
		case <-owner.dead:
			kills.Add(1)
		case <-asked.dead:
			kills.Add(1)
			lives = owner
		case <-time.After(patience):
			t.Fatalf("neither died: %v\n%s\n%s", a.kinds(), owner.log.String(), asked.log.String())
		}
		if _, err := os.Stat(filepath.Join(a.crashes, at.point)); !os.IsNotExist(err) {
			t.Fatalf("a replica died elsewhere than at %s:\n%s\n%s", at.point, owner.log.String(), asked.log.String())
		}
		a.noCredentialOnTheMachine()
	}
	a.finishCall(at, 1, lives)
}

// dieFirst lets the command make its call, and the replica die there.
func (a *asking) dieFirst(r *replica, at window) {
	a.t.Helper()
	a.set(r, at.point)
	a.put("go", "x")
	if !a.diesAt(r, at.point, 0) {
		a.t.Fatalf("the place was not reached: %v\n%s", a.kinds(), r.log.String())
	}
	a.noCredentialOnTheMachine()
}

// set has a replica die at a place, when it comes there.
func (a *asking) set(r *replica, point string) {
	if point != worked {
		r.arm(point)
		return
	}
	a.got.mu.Lock()
	a.got.hold++
	a.got.mu.Unlock()
}

// finishCall lets a last replica end the work, beside those that live, and counts what there is.
func (a *asking) finishCall(at window, deaths int, lives ...*replica) {
	a.t.Helper()
	last := a.start()
	if last.diesOrSettles() {
		a.t.Fatal("the last replica was killed by nobody of ours")
	}
	for _, r := range append(lives, last) {
		r.stop()
	}
	a.verifyCall(at, deaths)
	if a.t.Failed() {
		a.t.Logf("entries: %v\nthe command saw:\n%s\nlast replica:\n%s", a.kinds(), a.read("saw"), last.log.String())
	}
}

// diesAt waits until it is dead there, or all is done.
func (a *asking) diesAt(r *replica, point string, before int) bool {
	a.t.Helper()
	if point != worked {
		if !r.diesOrSettles() {
			return false
		}
		if _, err := os.Stat(filepath.Join(a.crashes, point)); !os.IsNotExist(err) {
			a.t.Fatalf("a replica died elsewhere than at %s:\n%s", point, r.log.String())
		}
		return true
	}
	reached := false
	a.soon(func() string { return "the service is not asked: " + fmt.Sprint(a.kinds()) + "\n" + r.log.String() }, func() bool {
		a.got.mu.Lock()
		reached = a.got.requests > before
		a.got.mu.Unlock()
		return reached || a.isIdle()
	})
	if reached {
		r.kill()
		kills.Add(1)
	}
	return reached
}

// verifyCall counts what was promised of a call with deaths at a place.
func (a *asking) verifyCall(at window, deaths int) {
	a.t.Helper()
	outcome, answer, effects, requests := journalv1.ToolOutcome_TOOL_OUTCOME_OK, "answer: 200 ok done for Bearer [secret]", 1, 1
	switch {
	case a.call.keyed && at.sent:
		requests += deaths
	case a.call.keyed || !at.started:
	default:
		outcome, answer = journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN, "answer: 502 unknown "
		if !at.sent {
			effects, requests = 0, 0
		}
	}
	a.got.mu.Lock()
	if a.got.effects != effects || a.got.requests != requests || len(a.got.wrong) > 0 {
		a.t.Errorf("the service had %d effects of %d requests, want %d of %d; under the keys %v, wrong ones %v", a.got.effects, a.got.requests, effects, requests, a.got.keys, a.got.wrong)
	}
	a.got.mu.Unlock()
	state := a.folds()
	a.settledOnce()
	results := map[string]int{}
	for _, entry := range a.entries() {
		if entry.Kind == journal.KindToolResult {
			results[entry.Call]++
		}
	}
	if len(state.Calls) != 2 {
		a.t.Errorf("%d calls, want the command and its own", len(state.Calls))
	}
	for id, call := range state.Calls {
		if results[id] != 1 {
			a.t.Fatalf("call %s has %d results", id, results[id])
		}
		said := string(call.Result.Content)
		if call.Nested() {
			if call.Result.Outcome != outcome {
				a.t.Errorf("the call is %s, want %s: %s", call.Result.Outcome, outcome, said)
			}
			continue
		}
		if call.Result.Outcome != journalv1.ToolOutcome_TOOL_OUTCOME_OK || strings.Count(said, "answer: ") != 1 || !strings.Contains(said, answer) {
			a.t.Errorf("the command ended as %s with %q, want %q", call.Result.Outcome, said, answer)
		}
	}
	cards := 0
	if a.call.gated {
		cards = 1
	}
	a.rows(cards)
	a.noCredential()
	a.startsNothingAgain()
	a.noneFailed()
}

// onTheMachine looks for a pattern as the machine's root: in every file that may be written, and in the environment and the arguments
// of every process.
func (a *asking) onTheMachine(pattern string) string {
	a.t.Helper()
	found, err := a.way.fleet.api.ExecMachine(a.t.Context(), a.machine.app, a.machine.id, []string{
		"/bin/sh", "-c", `grep -rslaE "$0" /data /etc /root /run /tmp /proc/[0-9]*/environ /proc/[0-9]*/cmdline; true`, pattern,
	}, time.Minute)
	if err != nil {
		a.t.Fatal(err)
	}
	return found.Stdout
}

func (a *asking) noCredentialOnTheMachine() {
	a.t.Helper()
	if where := a.onTheMachine(credentialPattern); where != "" {
		a.t.Errorf("the credential is on the machine, in %s", where)
	}
}

// noCredential: nor is it in what the command saw, in a log, or in a row.
func (a *asking) noCredential() {
	a.t.Helper()
	if saw := a.read("saw"); strings.Contains(saw, credential) || !strings.Contains(saw, "FLYFLEET_PROXY_TOKEN=") {
		a.t.Errorf("the command saw %s", saw)
	}
	for n, r := range a.replicas {
		if strings.Contains(r.log.String(), credential) {
			a.t.Errorf("the credential is in the log of replica %d", n+1)
		}
	}
	conn, err := pgx.Connect(a.t.Context(), a.url)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = conn.Close(a.t.Context()) }()
	if _, err := conn.Exec(a.t.Context(), "SET bytea_output = 'escape'"); err != nil {
		a.t.Fatal(err)
	}
	names, err := conn.Query(a.t.Context(), "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'")
	if err != nil {
		a.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		a.t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		var n int
		if err := conn.QueryRow(a.t.Context(), "SELECT count(*) FROM "+table+" x WHERE position($1 in x::text) > 0", credential).Scan(&n); err != nil {
			a.t.Fatal(err)
		}
		if n != 0 {
			a.t.Errorf("the credential is in %d rows of %s", n, table)
		}
	}
}
