package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// gated asks about commands that say so.
func gated() []tools.Rule {
	return []tools.Rule{{Tool: "exec", Arg: "command", Match: regexp.MustCompile("gated"), Policy: journalv1.Policy_POLICY_ASK}}
}

// parked waits until the session waits for a person, and gives its cards.
func (r *rig) parked(session uuid.UUID) []store.Approval {
	r.t.Helper()
	r.soon("the session is parked", func() bool {
		now, err := r.store.Session(r.t.Context(), tenant, session)
		return err == nil && now.State == store.SessionParked
	})
	cards, err := r.store.Pending(r.t.Context(), tenant, uuid.Nil, 10)
	if err != nil {
		r.t.Fatal(err)
	}
	return cards
}

func (r *rig) decide(card store.Approval, approve bool) {
	r.t.Helper()
	if _, err := r.store.Decide(r.t.Context(), store.Decision{Tenant: tenant, Approval: card.ID, Key: "k", Approve: approve, By: "ann"}); err != nil {
		r.t.Fatal(err)
	}
}

// owner works on sessions as a replica that dies without a word: kill ends it, and nothing is given up. It returns when it
// has a session.
func (r *rig) owner() (kill func()) {
	r.t.Helper()
	s := r.connect()
	e, err := s.Register(r.t.Context(), "doomed", "test")
	if err != nil {
		r.t.Fatal(err)
	}
	var claims []store.Claim
	r.soon("a session is claimed", func() bool {
		if err := s.Beat(r.t.Context(), e); err != nil {
			r.t.Fatal(err)
		}
		if claims, err = s.Claim(r.t.Context(), e, 1); err != nil {
			r.t.Fatal(err)
		}
		return len(claims) == 1
	})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = r.driver(s).Run(ctx, claims[0], nil)
	}()
	go func() {
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
	}()
	kill = func() {
		cancel()
		<-over
	}
	r.t.Cleanup(kill)
	return kill
}

// openai/openai-agents-python#3004, microsoft/agent-framework#6910: a gated call holds up no free one of its answer.
// langchain-ai/langgraph#4397, langchain-ai/langgraph#6208: when one of two is answered nothing else runs again.
func TestGatedCallHoldsUpNoFreeOne(t *testing.T) {
	r := newRigAsking(t, scriptedModel(t, "run: echo x >> free; echo free\n+ run: echo x >> gated1\n+ run: echo x >> gated2\nsay: {{result}}"), gated())
	r.replica()
	session := r.session()
	work := r.submit(session, "go")
	cards := r.parked(session)
	if len(cards) != 2 {
		t.Fatalf("%d cards", len(cards))
	}
	if r.file(session, "free") != "x\n" || r.file(session, "gated1")+r.file(session, "gated2") != "" {
		t.Fatalf("free %q, gated %q %q", r.file(session, "free"), r.file(session, "gated1"), r.file(session, "gated2"))
	}
	if !strings.Contains(string(cards[0].Summary), "gated1") {
		t.Errorf("the card shows %s", cards[0].Summary)
	}
	r.decide(cards[0], true)
	r.soon("the approved call runs", func() bool { return r.file(session, "gated1") == "x\n" })
	r.decide(cards[1], false)
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	if r.file(session, "free") != "x\n" || r.file(session, "gated1") != "x\n" || r.file(session, "gated2") != "" {
		t.Errorf("free %q, gated %q %q", r.file(session, "free"), r.file(session, "gated1"), r.file(session, "gated2"))
	}
	_, state := r.history(session)
	if got := results(state); len(got) != 3 || !strings.Contains(got[0], "free") || !strings.Contains(got[2], "Denied") {
		t.Errorf("results %q", got)
	}
}

// agentscope-ai/agentscope#2227: of replicas that all hear of a decision, one starts the call.
func TestOneOfManyReplicasStartsADecidedCall(t *testing.T) {
	r := newRigAsking(t, scriptedModel(t, "run: echo x >> gated\nsay: {{result}}"), gated())
	for range 3 {
		r.replica()
	}
	var sessions []uuid.UUID
	var works []store.Submission
	for range 5 {
		session := r.session()
		sessions, works = append(sessions, session), append(works, r.submit(session, "go"))
	}
	for _, session := range sessions {
		r.parked(session)
	}
	cards, err := r.store.Pending(t.Context(), tenant, uuid.Nil, 10)
	if err != nil || len(cards) != len(sessions) {
		t.Fatalf("%d cards, %v", len(cards), err)
	}
	for _, card := range cards {
		r.decide(card, true)
	}
	for i, work := range works {
		if now := r.settled(work.ID); now.Outcome != completed {
			t.Errorf("outcome %s", now.Outcome)
		}
		entries, _ := r.history(sessions[i])
		if n := count(entries, journal.KindToolStarted); n != 1 || r.file(sessions[i], "gated") != "x\n" {
			t.Errorf("started %d times, ran %q", n, r.file(sessions[i], "gated"))
		}
	}
}

// mail is an opaque tool that needs a yes: it cannot be asked whether it was sent.
func mail(sent *atomic.Int64, hangs <-chan struct{}) tools.Tool {
	return tools.Tool{
		Name: "mail", Schema: json.RawMessage(`{"type":"object"}`),
		Run: func(ctx context.Context, _ tools.Call) (tools.Result, error) {
			sent.Add(1)
			select {
			case <-hangs:
				return tools.Result{Content: []byte("sent")}, nil
			case <-ctx.Done():
				return tools.Result{}, context.Cause(ctx)
			}
		},
	}
}

// andrewyng/openworker#443: an approved mail was sent, and the process died before it wrote that down. It is not sent again,
// and the model is told. Agenta-AI/agenta#5592: the decision outlives the owner that should have started the call.
func TestOpaqueCallOfADeadOwnerIsUnknownAndNotRepeated(t *testing.T) {
	var sent atomic.Int64
	r := newRig(t, "call: mail {}\nsay: {{result}}", mail(&sent, nil))
	session := r.session()
	work := r.submit(session, "go")
	first := r.replica()
	card := r.parked(session)[0]
	first()
	r.decide(card, true)
	kill := r.owner()
	r.soon("the mail is sent", func() bool { return sent.Load() == 1 })
	kill()
	r.replica()
	if now := r.settled(work.ID); now.Outcome != completed || now.Attempts != 1 {
		t.Fatalf("outcome %s after %d deaths", now.Outcome, now.Attempts)
	}
	entries, state := r.history(session)
	if sent.Load() != 1 || count(entries, journal.KindToolStarted) != 1 {
		t.Errorf("sent %d times, started %d times", sent.Load(), count(entries, journal.KindToolStarted))
	}
	if got := results(state); len(got) != 1 || !strings.HasPrefix(got[0], "Unknown:") {
		t.Errorf("results %q", got)
	}
	if unknown := state.Submissions[0].Unknown; len(unknown) != 1 {
		t.Errorf("unknown calls: %q", unknown)
	}
}

// riverqueue/river#1358: a cancel is a row, which is found whoever listens.
func TestCancelEndsACommandAndSettles(t *testing.T) {
	r := newRig(t, "run: echo begun > begun; trap 'echo termed > termed; exit 3' TERM; while :; do sleep 0.05; done\nsay: no")
	r.replica()
	session := r.session()
	work := r.submit(session, "go")
	r.soon("the command runs", func() bool { return r.file(session, "begun") != "" })
	if err := r.store.Cancel(t.Context(), tenant, work.ID); err != nil {
		t.Fatal(err)
	}
	if now := r.settled(work.ID); now.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, state := r.history(session)
	if r.file(session, "termed") != "termed\n" || count(entries, journal.KindExecExited) != 1 || len(results(state)) != 1 {
		t.Errorf("termed %q; %v; %q", r.file(session, "termed"), kinds(entries), results(state))
	}
}

func TestDeadlineEndsAStalledModelCall(t *testing.T) {
	r := newRig(t, "stall: and then")
	r.replica()
	session := r.session()
	work := r.submit(session, "go", func(in *store.Input) { in.TimeLimit = 500 * time.Millisecond })
	if now := r.settled(work.ID); now.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, _ := r.history(session)
	if count(entries, journal.KindModelAborted) != 1 {
		t.Errorf("%v", kinds(entries))
	}
}

// openclaw/openclaw#124941, vectorize-io/hindsight#2675: a turn that kills whoever works on it is given up, with one end, and the
// queue moves on.
func TestTurnThatKillsItsOwnersIsGivenUp(t *testing.T) {
	r := newRig(t, "")
	r.open = func(o *store.Options) { o.TTL = 500 * time.Millisecond }
	session := r.session()
	work := r.submit(session, "run: echo x >> deadly; while :; do sleep 0.05; done")
	next := r.submit(session, "say: alive")
	for range 5 {
		kill := r.owner()
		r.soon("the command runs", func() bool { return r.file(session, "deadly") == "x\n" })
		kill()
	}
	r.replica()
	if now := r.settled(work.ID); now.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED {
		t.Fatalf("outcome %s", now.Outcome)
	}
	if now := r.settled(next.ID); now.Outcome != completed {
		t.Fatalf("the next one: %s", now.Outcome)
	}
	if r.file(session, "deadly") != "x\n" {
		t.Errorf("it ran %q", r.file(session, "deadly"))
	}
}

// turnedAway is a place whose machine does not take work at first.
type turnedAway struct {
	driver.Machines
	times atomic.Int64
	name  func() string
}

func (m *turnedAway) Open(ctx context.Context, claim store.Claim) (driver.Place, error) {
	place, err := m.Machines.Open(ctx, claim)
	place.Box = refusing{place.Box, &m.times}
	if m.name != nil {
		place.Machine = m.name()
	}
	return place, err
}

type refusing struct {
	sandbox.Sandbox
	times *atomic.Int64
}

func (b refusing) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	if b.times.Add(-1) >= 0 {
		return nil, &sandbox.UnavailableError{Reason: "it is being swapped", Refused: true, Err: errors.New("stopping")}
	}
	return b.Sandbox.Start(ctx, command)
}

func TestRefusedStartWaitsAndIsNoFailure(t *testing.T) {
	r := newRig(t, "run: echo x >> counter; echo ran\nsay: {{result}}")
	m := &turnedAway{Machines: r.places}
	m.times.Store(3)
	r.change = func(o *driver.Options) { o.Machines = m }
	r.replica()
	session := r.session()
	work := r.submit(session, "go")
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, state := r.history(session)
	if got := results(state); len(got) != 1 || !strings.HasPrefix(got[0], "ran\n") || r.file(session, "counter") != "x\n" {
		t.Errorf("results %q, ran %q", got, r.file(session, "counter"))
	}
	if count(entries, journal.KindExecStarted) != 1 {
		t.Errorf("%v", kinds(entries))
	}
}

// The machine of a command is gone, and the session has another: the command is lost, and not run there.
func TestCommandOfAMachineThatIsGoneIsLost(t *testing.T) {
	r := newRig(t, "run: echo x >> counter; while :; do sleep 0.05; done\nsay: {{result}}")
	var name atomic.Value
	name.Store("m1")
	m := &turnedAway{Machines: r.places, name: func() string { return name.Load().(string) }}
	r.change = func(o *driver.Options) { o.Machines = m }
	session := r.session()
	work := r.submit(session, "go")
	kill := r.owner()
	r.soon("the command runs", func() bool { return r.file(session, "counter") == "x\n" })
	kill()
	name.Store("m2")
	r.replica()
	if now := r.settled(work.ID); now.Outcome != completed {
		t.Fatalf("outcome %s", now.Outcome)
	}
	entries, state := r.history(session)
	if got := results(state); count(entries, journal.KindExecLost) != 1 || len(got) != 1 || !strings.Contains(got[0], "lost") || r.file(session, "counter") != "x\n" {
		t.Errorf("%v: %q, ran %q", kinds(entries), got, r.file(session, "counter"))
	}
}
