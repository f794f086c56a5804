package journaltest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const tenant = "tenant-one"

// world is what a case works with: a database and the first replica's store.
type world struct {
	*testing.T
	db Database
	Store
}

// turn is a session with the claim of its owner, and the last entry that it wrote.
type turn struct {
	*world
	id    uuid.UUID
	claim store.Claim
	last  int64
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

// isState wants the refusal of a step whose rows are not as it needs them.
func (w *world) isState(err error) {
	w.Helper()
	if state := new(store.StateError); !errors.As(err, &state) {
		w.Fatalf("error is %v, want a *store.StateError", err)
	}
}

// get fails the test on an error.
func get[V any](w *world, v V, err error) V {
	w.Helper()
	w.ok(err)
	return v
}

func (w *world) executor() *store.Executor {
	w.Helper()
	e, err := w.Register(w.Context(), "10.0.0.1:1", "test")
	return get(w, e, err)
}

func (w *world) session() uuid.UUID {
	w.Helper()
	id := store.NewID()
	_, err := w.CreateSession(w.Context(), tenant, "agent", id)
	w.ok(err)
	return id
}

func (w *world) submit(session uuid.UUID, key string) store.Submission {
	w.Helper()
	u, err := w.Submit(w.Context(), store.Input{Tenant: tenant, Session: session, Key: key, Payload: []byte(key)})
	return get(w, u, err)
}

// claimOne claims, and wants exactly that session.
func (w *world) claimOne(s Store, e *store.Executor, session uuid.UUID) store.Claim {
	w.Helper()
	claims, err := s.Claim(w.Context(), e, 10)
	w.ok(err)
	if len(claims) != 1 || claims[0].Session != session {
		w.Fatalf("claims are %+v, want session %s", claims, session)
	}
	return claims[0]
}

func (w *world) claimNone(s Store, e *store.Executor) {
	w.Helper()
	claims, err := s.Claim(w.Context(), e, 10)
	w.ok(err)
	if len(claims) != 0 {
		w.Fatalf("claims are %+v, want none", claims)
	}
}

// begin makes a session with a submission that a new executor works on, its input in the journal.
func (w *world) begin() *turn {
	w.Helper()
	id := w.session()
	w.submit(id, "first")
	t := &turn{world: w, id: id, claim: w.claimOne(w, w.executor(), id), last: 1}
	t.accept()
	return t
}

// kill lets the owner of a turn die: its beats have stopped long ago. Executors of other turns die with it, unless they beat. The
// one that it gives has lived all the time.
func (w *world) kill() *store.Executor {
	w.Helper()
	e := w.executor()
	w.db.Elapse(w, time.Hour)
	w.ok(w.Beat(w.Context(), e))
	return e
}

// takeOver claims the turn's session from its dead owner with another executor.
func (t *turn) takeOver() *turn {
	t.Helper()
	c := t.claimOne(t, t.kill(), t.id)
	if !c.TookOver {
		t.Fatalf("claim %+v does not say that it took over", c)
	}
	return &turn{world: t.world, id: t.id, claim: c, last: t.last}
}

func (t *turn) submission() uuid.UUID { return t.claim.Submission.ID }

// commit appends the bodies with what change adds to the step.
func (t *turn) commit(change func(*store.Step), bodies ...*journalv1.Body) error {
	step := store.Step{After: t.last}
	for _, b := range bodies {
		e := journal.Entry{Body: b}
		if t.claim.Submission != nil {
			e.Submission = t.claim.Submission.ID
		}
		step.Entries = append(step.Entries, e)
	}
	if change != nil {
		change(&step)
	}
	done, err := t.Commit(t.Context(), t.claim, step)
	if err == nil {
		t.last += int64(len(done.Entries))
	}
	return err
}

func (t *turn) must(change func(*store.Step), bodies ...*journalv1.Body) {
	t.Helper()
	t.ok(t.commit(change, bodies...))
}

func (t *turn) accept() {
	t.Helper()
	t.must(func(s *store.Step) { s.Accept = []store.Accept{{Submission: t.submission()}} }, input(t.claim.Submission.Ordinal, "hello"))
}

func (t *turn) call(id string, class journalv1.EffectClass) {
	t.Helper()
	t.must(func(s *store.Step) {
		s.Intend = []store.Effect{{Call: id, Submission: t.submission(), Class: class, Tool: "tool", ArgsSHA256: digest(id)}}
	}, called(id, class))
}

// card opens an approval for a call and gives its id.
func (t *turn) card(call string, expires time.Duration) uuid.UUID {
	t.Helper()
	id := store.NewID()
	t.must(func(s *store.Step) {
		s.Request = []store.Request{{Approval: id, Call: call, Submission: t.submission(), ArgsSHA256: digest(call), Summary: []byte("run " + call), ExpiresIn: expires}}
	}, requested(call, id))
	return id
}

func (t *turn) start(call string, args []byte) error {
	return t.commit(func(s *store.Step) { s.Start = []store.Start{{Call: call, ArgsSHA256: args}} }, started(call))
}

// deliver tells the decision about call c1.
func (t *turn) deliver(card uuid.UUID, decision journalv1.Decision) error {
	return t.commit(func(s *store.Step) { s.Deliver = []store.Deliver{{Approval: card}} }, decided("c1", card, decision))
}

func (t *turn) settle(call string, outcome journalv1.ToolOutcome) error {
	return t.commit(func(s *store.Step) { s.Settle = []store.Settle{{Call: call, Outcome: outcome}} }, result(call, outcome, []byte("done")))
}

func (t *turn) finish() error {
	return t.commit(func(s *store.Step) {
		s.Finish = &store.Finish{Submission: t.submission(), Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED}
	}, settled())
}

func (t *turn) park() bool {
	t.Helper()
	parked, err := t.Park(t.Context(), t.claim)
	return get(t.world, parked, err)
}

// entries loads the whole history and wants it dense from 1.
func (w *world) entries(session uuid.UUID) []journal.Entry {
	w.Helper()
	all, err := w.Load(w.Context(), tenant, session, 0, 0)
	w.ok(err)
	for i, e := range all {
		if e.Seq != int64(i+1) {
			w.Fatalf("entry %d of session %s has seq %d", i, session, e.Seq)
		}
	}
	return all
}

func kinds(entries []journal.Entry) string {
	text := ""
	for _, e := range entries {
		text += e.Kind.String() + " "
	}
	return text
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func input(ordinal int64, text string) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_InputAccepted{InputAccepted: &journalv1.InputAccepted{
		Ordinal: ordinal, Parts: []*journalv1.Part{{Part: &journalv1.Part_Text{Text: text}}},
	}}}
}

func delta(text string) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: text}}}
}

func answer(text string) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ModelCompleted{ModelCompleted: &journalv1.ModelCompleted{
		Blocks: []*journalv1.Block{{Kind: journalv1.BlockKind_BLOCK_KIND_TEXT, Raw: fmt.Appendf(nil, `{"type":"text","text":%q}`, text)}},
	}}}
}

func called(id string, class journalv1.EffectClass) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: &journalv1.ToolCalled{
		CallId: id, Tool: "tool", ArgsSha256: digest(id), Class: class, Policy: journalv1.Policy_POLICY_ASK,
	}}}
}

func requested(call string, card uuid.UUID) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ApprovalRequested{ApprovalRequested: &journalv1.ApprovalRequested{
		ApprovalId: card.String(), CallId: call, ArgsSha256: digest(call),
	}}}
}

func decided(call string, card uuid.UUID, decision journalv1.Decision) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ApprovalDecided{ApprovalDecided: &journalv1.ApprovalDecided{
		ApprovalId: card.String(), CallId: call, Decision: decision,
	}}}
}

func started(call string) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: call}}}
}

func execStarted(call string, exec uuid.UUID) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{CallId: call, ExecId: exec.String(), Machine: "m1"}}}
}

func execExited(call string, exec uuid.UUID) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ExecExited{ExecExited: &journalv1.ExecExited{CallId: call, ExecId: exec.String()}}}
}

func result(call string, outcome journalv1.ToolOutcome, content []byte) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{CallId: call, Outcome: outcome, Content: content}}}
}

func settled() *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_SubmissionSettled{SubmissionSettled: &journalv1.SubmissionSettled{
		Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED,
	}}}
}
