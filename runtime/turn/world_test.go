package turn_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// world carries out what Next says, among models, people, machines and processes that do as rapid draws: they
// answer, fail, and die at any place, also between an effect and its entry.
type world struct {
	t       *rapid.T
	state   *journal.State
	entries []journal.Entry
	facts   turn.Facts
	agent   agentName
	last    []turn.Action

	// inputs is how many more there will be, crashes how many more deaths: the world ends.
	inputs, crashes int
	submissions     int

	// What is true outside of the journal: how often a call had its effect, and was started on its machine; what
	// the rows of the approvals say (nil: pending); which model said which bytes.
	effects map[string]int
	starts  map[string]int
	rows    map[string]*turn.Decision
	said    map[string]agentName
	// asked are the calls that commands ask for and that no entry tells of, asks counts them.
	asked map[string]*journalv1.ToolCalled
	asks  int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, state: new(journal.State), facts: turn.Facts{Fence: 1, Attempt: 1, Trusted: true},
		inputs: rapid.IntRange(1, 4).Draw(t, "inputs"), crashes: rapid.IntRange(0, 10).Draw(t, "crashes"),
		effects: map[string]int{}, starts: map[string]int{}, rows: map[string]*turn.Decision{}, said: map[string]agentName{},
		asked: map[string]*journalv1.ToolCalled{},
	}
	w.forget()
	w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_SessionCreated{SessionCreated: &journalv1.SessionCreated{Agent: "coder"}}})
	return w
}

// forget makes a new process of the owner: it knows what the database knows.
func (w *world) forget() {
	w.facts.ModelRunning, w.facts.GraceOver = false, false
	w.facts.Running, w.facts.Stopped, w.facts.Held = map[string]bool{}, map[string]bool{}, map[string]bool{}
}

func (w *world) maybe(label string, percent int) bool {
	return rapid.IntRange(0, 99).Draw(w.t, label) >= 100-percent
}

// dies may kill the owner at this place.
func (w *world) dies(place string) bool {
	if w.crashes == 0 || !w.maybe("dies "+place, 10) {
		return false
	}
	w.crashes--
	w.facts.Attempt++
	w.claim()
	return true
}

// claim is by a new owner.
func (w *world) claim() {
	w.facts.Fence++
	w.facts.Draining = false
	w.forget()
}

// append commits a batch of the open submission, or of the one that is named.
func (w *world) append(submission uuid.UUID, bodies ...*journalv1.Body) {
	if open := w.state.Open(); open != nil && submission == uuid.Nil {
		submission = open.ID
	}
	for _, body := range bodies {
		kind, data, err := journal.Marshal(body)
		if err != nil {
			w.t.Fatalf("marshal: %v", err)
		}
		if body, err = journal.Unmarshal(kind, data); err != nil {
			w.t.Fatalf("unmarshal: %v", err)
		}
		entry := journal.Entry{
			Session: journaltext.Session("a"), Seq: w.state.Seq + 1, Fence: w.facts.Fence, Kind: kind,
			Submission: submission, Call: journal.CallOf(body), At: time.UnixMilli(1).UTC(), Body: body,
		}
		if err := w.state.Apply(entry); err != nil {
			w.t.Fatalf("%v\nafter %#v", err, w.last)
		}
		w.entries = append(w.entries, entry)
	}
	w.closeCalls()
}

// run goes on until every submission is settled.
func (w *world) run() {
	for steps := 0; ; steps++ {
		if steps > 3000 {
			w.t.Fatalf("no end: phase %s, last actions %#v", w.state.Phase(), w.last)
		}
		w.outside()
		w.last = turn.Next(w.state, w.facts)
		if len(w.last) == 0 {
			w.finishSomething()
			continue
		}
		for _, action := range w.last {
			done, died := w.do(action)
			if done {
				return
			}
			if died {
				break
			}
		}
	}
}

// outside is what people and the platform do by themselves.
func (w *world) outside() {
	switch rapid.IntRange(0, 40).Draw(w.t, "outside") {
	case 35:
		w.facts.Cancel = w.state.Open() != nil
	case 36:
		w.facts.DeadlinePassed = w.state.Open() != nil
	case 37:
		w.facts.Draining = true
	case 33, 34, 38:
		w.decideOne()
	case 29, 30, 31, 32, 39:
		w.callBack()
	case 28, 40:
		w.facts.GraceOver = len(w.facts.Stopped) > 0
	case 27:
		w.send()
	}
}

func (w *world) send() {
	if w.inputs == 0 {
		return
	}
	w.inputs--
	w.submissions++
	policy := rapid.SampledFrom([]turn.OnBusy{turn.Queue, turn.Interrupt, turn.Answer, turn.Join, turn.Reject}).Draw(w.t, "policy")
	if policy == turn.Reject && w.state.Open() != nil {
		return
	}
	if policy == turn.Join && w.state.Open() != nil {
		w.facts.Joining = append(w.facts.Joining, journaltext.Submission(fmt.Sprint(w.submissions)))
		return
	}
	w.facts.Queued = append(w.facts.Queued, turn.Queued{
		ID: journaltext.Submission(fmt.Sprint(w.submissions)), Policy: policy, Cancel: w.maybe("cancel queued", 5),
	})
}

func (w *world) decideOne() {
	for _, id := range slices.Sorted(maps.Keys(w.rows)) {
		if w.rows[id] == nil {
			w.decide(turn.Decision{ApprovalID: id, By: "ann", Decision: rapid.SampledFrom([]journalv1.Decision{
				journalv1.Decision_DECISION_APPROVED, journalv1.Decision_DECISION_APPROVED, journalv1.Decision_DECISION_DENIED,
				journalv1.Decision_DECISION_EXPIRED, journalv1.Decision_DECISION_EDITED,
			}).Draw(w.t, "decision")})
			return
		}
	}
}

func (w *world) decide(decision turn.Decision) {
	if decision.Decision == journalv1.Decision_DECISION_EDITED {
		decision.Args = []byte(`{"edited":true}`)
	}
	w.rows[decision.ApprovalID] = &decision
	w.facts.Decisions = append(w.facts.Decisions, decision)
}

// lookForCalls is what the rows say that commands ask for.
func (w *world) lookForCalls() {
	w.facts.Asked = nil
	for _, id := range slices.Sorted(maps.Keys(w.asked)) {
		exec, _, _ := strings.Cut(id, "/")
		w.facts.Asked = append(w.facts.Asked, turn.Asked{Call: id, Exec: exec})
	}
}

// closeCalls closes, with a command's end, what it asked for and nobody has taken.
func (w *world) closeCalls() {
	maps.DeleteFunc(w.asked, func(id string, _ *journalv1.ToolCalled) bool {
		exec, _, _ := strings.Cut(id, "/")
		call := w.state.Calls[w.state.Execs[exec]]
		return call == nil || call.Exec.State != journal.ExecIntended
	})
	w.lookForCalls()
}

// callBack is a command that calls the gateway.
func (w *world) callBack() {
	for _, call := range w.state.Pending() {
		if call.Exec == nil || call.Exec.State != journal.ExecIntended || call.Nested() {
			continue
		}
		class := rapid.SampledFrom([]journalv1.EffectClass{journalv1.EffectClass_EFFECT_CLASS_KEYED, journalv1.EffectClass_EFFECT_CLASS_OPAQUE}).Draw(w.t, "class")
		w.asks++
		w.asked[fmt.Sprintf("%s/%d", call.Exec.ID, w.asks)] = &journalv1.ToolCalled{
			Tool: "crm", Class: class, Block: -1, ArgsSha256: journal.ArgsSHA256(nil),
			Policy: rapid.SampledFrom([]journalv1.Policy{journalv1.Policy_POLICY_ASK, journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_DENY}).Draw(w.t, "policy"),
		}
		w.lookForCalls()
		return
	}
}

// finishSomething lets one thing that runs come to its end.
func (w *world) finishSomething() {
	if w.facts.ModelRunning {
		w.finishModel()
		return
	}
	running := slices.Sorted(maps.Keys(w.facts.Running))
	if len(running) == 0 {
		w.t.Fatalf("nothing to do, and nothing runs: phase %s, facts %+v", w.state.Phase(), w.facts)
	}
	call := w.state.Calls[rapid.SampledFrom(running).Draw(w.t, "ends")]
	if call.Exec != nil && !call.Settled() && w.maybe("calls back", 30) {
		w.callBack()
		return
	}
	if w.dies("before the result") {
		return
	}
	delete(w.facts.Running, call.ID)
	if call.Settled() {
		return
	}
	w.append(uuid.Nil, w.outcome(call)...)
	w.dies("after the result")
}

func (w *world) outcome(call *journal.Call) []*journalv1.Body {
	outcome := rapid.SampledFrom([]journalv1.ToolOutcome{journalv1.ToolOutcome_TOOL_OUTCOME_OK, journalv1.ToolOutcome_TOOL_OUTCOME_ERROR}).Draw(w.t, "outcome")
	content := rapid.SampledFrom([]string{"", "ok", "a\x00b", "\xed\xa0\x80", "  "}).Draw(w.t, "content")
	result := &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{CallId: call.ID, Outcome: outcome, Content: []byte(content)}}}
	if call.Exec == nil {
		return []*journalv1.Body{result}
	}
	if w.maybe("machine restarted", 10) {
		result.GetToolResult().Outcome = journalv1.ToolOutcome_TOOL_OUTCOME_ERROR
		return []*journalv1.Body{{Body: &journalv1.Body_ExecLost{ExecLost: &journalv1.ExecLost{CallId: call.ID, ExecId: call.Exec.ID, Reason: "restarted"}}}, result}
	}
	return []*journalv1.Body{{Body: &journalv1.Body_ExecExited{ExecExited: &journalv1.ExecExited{CallId: call.ID, ExecId: call.Exec.ID}}}, result}
}
