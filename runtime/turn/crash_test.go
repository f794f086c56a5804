package turn_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

const (
	created = `
session_created { agent: "coder" }
`
	inputIn = created + `
submission 1
input_accepted { ordinal: 1 parts { text: "do it" } }
`
	begun = inputIn + `
turn_started { attempt: 1 }
`
	requested = begun + `
model_requested { provider: "anthropic" model: "m" attempt: 1 }
`
	completedHead = requested + `
model_completed { provider: "anthropic" model: "m" stop_reason: "tools"
  blocks { kind: BLOCK_KIND_TEXT raw: "{\"type\":\"text\",\"text\":\"I will\"}" }
`
	said = requested + `
model_completed { provider: "anthropic" model: "m" stop_reason: "end" blocks { kind: BLOCK_KIND_TEXT raw: "{\"type\":\"text\",\"text\":\"Done\"}" } }
`
)

// oneCall is an answer with one call, c1, of that class and policy.
func oneCall(class, policy string) string {
	return completedHead + `  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"t\",\"input\":{}}" } }
tool_called { call_id: "c1" tool: "t" class: EFFECT_CLASS_` + class + ` block: 1 policy: POLICY_` + policy + ` args_sha256: "d1" }
`
}

// threeCalls is an answer with three opaque calls that need no approval.
const threeCalls = completedHead + `  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"t\",\"input\":{}}" }
  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"t\",\"input\":{}}" }
  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c3\",\"name\":\"t\",\"input\":{}}" } }
tool_called { call_id: "c1" tool: "t" class: EFFECT_CLASS_OPAQUE block: 1 policy: POLICY_ALLOW args_sha256: "d1" }
tool_called { call_id: "c2" tool: "t" class: EFFECT_CLASS_OPAQUE block: 2 policy: POLICY_ALLOW args_sha256: "d2" }
tool_called { call_id: "c3" tool: "t" class: EFFECT_CLASS_OPAQUE block: 3 policy: POLICY_ALLOW args_sha256: "d3" }
`

const (
	card    = `approval_requested { approval_id: "a1" call_id: "c1" args_sha256: "d1" expires_at_ms: 5 }` + "\n"
	granted = `approval_decided { approval_id: "a1" call_id: "c1" decision: DECISION_APPROVED by: "ann" }` + "\n"
	exec    = `
tool_started { call_id: "c1" }
exec_started { call_id: "c1" exec_id: "x1" machine: "m1" epoch: "e1" fence: 1 }
`
	tookOver = `
fence 2
turn_started { attempt: 2 }
`
)

var (
	first    = journaltext.Submission("1")
	approved = turn.Decision{ApprovalID: "a1", Decision: journalv1.Decision_DECISION_APPROVED, By: "ann"}
	key      = turn.IdempotencyKey(journaltext.Session("a"), "c1")
)

func state(t *testing.T, text string) *journal.State {
	t.Helper()
	entries, err := journaltext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := journal.Fold(entries)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// heir is what a new owner knows that took over from a dead one.
func heir() turn.Facts { return turn.Facts{Fence: 2, Attempt: 2, Trusted: true} }

func with(change func(*turn.Facts)) turn.Facts {
	f := heir()
	change(&f)
	return f
}

func expect(t *testing.T, s *journal.State, f turn.Facts, want ...turn.Action) {
	t.Helper()
	if diff := cmp.Diff(want, turn.Next(s, f), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(turn.SettleUnknown{}, "Content")); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// The places where an owner can be killed. Each history is what the journal then proves, and the actions are
// the next owner's, which has counted an attempt already. What the store or the machine does at a place is
// tested there; here stands what is decided.
func TestNextOwnerAfterEachCrash(t *testing.T) {
	ask := turn.AskModel{Try: 1}
	run := func(class journalv1.EffectClass) turn.StartTool {
		return turn.StartTool{Call: "c1", Class: class, Journaled: true}
	}
	resume := turn.ResumeExec{Call: "c1", Exec: "x1"}
	running := oneCall("ATTACHED", "ALLOW") + exec + tookOver
	cases := []struct {
		name, history string
		facts         turn.Facts
		want          []turn.Action
	}{
		{"01 before the submission is admitted", created, heir(), []turn.Action{turn.Release{Why: turn.Idle}}},
		{
			"02 after admission, before the claim", created,
			turn.Facts{Fence: 1, Attempt: 1, Trusted: true, Queued: []turn.Queued{{ID: first}}},
			[]turn.Action{turn.AcceptInput{Submission: first}},
		},
		{
			"03 after the claim, before input_accepted", created,
			with(func(f *turn.Facts) { f.Queued = []turn.Queued{{ID: first}} }),
			[]turn.Action{turn.AcceptInput{Submission: first}},
		},
		{"03 after input_accepted", inputIn, heir(), []turn.Action{turn.StartTurn{Attempt: 2}}},
		{"04 after model_requested", requested + tookOver, heir(), []turn.Action{turn.AbortModel{Reason: "owner_died", Retryable: true}}},
		{"04 and then", requested + tookOver + `model_aborted { reason: "owner_died" retryable: true }`, heir(), []turn.Action{ask}},
		{"05 in mid-answer", requested + `model_delta { text: "I wi" }` + tookOver, heir(), []turn.Action{turn.AbortModel{Reason: "owner_died", Retryable: true}}},
		{"06 answered, not committed", requested + tookOver, heir(), []turn.Action{turn.AbortModel{Reason: "owner_died", Retryable: true}}},
		{"07 after model_completed", oneCall("OPAQUE", "ALLOW") + tookOver, heir(), []turn.Action{run(journalv1.EffectClass_EFFECT_CLASS_OPAQUE)}},
		{"08 after approval_requested", oneCall("OPAQUE", "ASK") + card + tookOver, heir(), []turn.Action{turn.Park{}}},
		{
			"09 decided, not delivered", oneCall("OPAQUE", "ASK") + card + tookOver,
			with(func(f *turn.Facts) { f.Decisions = []turn.Decision{approved} }),
			[]turn.Action{turn.DeliverDecision{Call: "c1", Decision: approved}},
		},
		{
			// Agenta-AI/agenta#5592: decided, and the start that should follow failed.
			"09 delivered, not consumed", oneCall("OPAQUE", "ASK") + card + granted + tookOver, heir(),
			[]turn.Action{turn.StartTool{Call: "c1", Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Journaled: true, ApprovalID: "a1"}},
		},
		{
			"10 after tool_started: pure", oneCall("PURE", "ASK") + card + granted + `tool_started { call_id: "c1" approval_id: "a1" }` + tookOver, heir(),
			[]turn.Action{turn.RunPureAgain{Call: "c1"}},
		},
		{
			"10 after tool_started: pure and free, which leaves no trace", oneCall("PURE", "ALLOW") + tookOver, heir(),
			[]turn.Action{turn.StartTool{Call: "c1", Class: journalv1.EffectClass_EFFECT_CLASS_PURE}},
		},
		{
			"10 after tool_started: keyed", oneCall("KEYED", "ALLOW") + `tool_started { call_id: "c1" idempotency_key: "` + key + `" }` + tookOver, heir(),
			[]turn.Action{turn.SendKeyedAgain{Call: "c1", Key: key}},
		},
		{"10 after tool_started: opaque", oneCall("OPAQUE", "ALLOW") + `tool_started { call_id: "c1" }` + tookOver, heir(), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{"11 done, result not committed", oneCall("OPAQUE", "ALLOW") + `tool_started { call_id: "c1" }` + tookOver, heir(), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{"12 after exec_started, start not sent", running, heir(), []turn.Action{resume}},
		{"13 start sent, answer lost", running, heir(), []turn.Action{resume}},
		{"14 in mid-output", running, heir(), []turn.Action{resume}},
		{"15 ended while nobody watched", running, with(func(f *turn.Facts) { f.Ended = map[string]bool{"x1": true} }), []turn.Action{resume}},
		{
			"16 the machine restarted: lost, told, never run again",
			running + `exec_lost { call_id: "c1" exec_id: "x1" reason: "restarted" }` + "\n" + `tool_result { call_id: "c1" outcome: TOOL_OUTCOME_ERROR content: "the machine restarted" }`,
			heir(),
			[]turn.Action{ask},
		},
		{"17 the machine is gone: past the deadline", running, with(func(f *turn.Facts) { f.DeadlinePassed, f.GraceOver = true, true }), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{
			// OpenHands/software-agent-sdk#2298, GEMISIS/leviath#96
			"18 after the result of one of three", threeCalls + `tool_started { call_id: "c1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }
tool_started { call_id: "c2" }` + tookOver, heir(),
			[]turn.Action{turn.SettleUnknown{Call: "c2"}, turn.StartTool{Call: "c3", Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Journaled: true}},
		},
		{"19 while settling", said, heir(), []turn.Action{turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED}}},
		{"20 not dead, only paused", running, turn.Facts{Fence: 1, Attempt: 1, Trusted: false}, nil},
	}
	places := map[string]bool{}
	for _, c := range cases {
		places[c.name[:2]] = true
		t.Run(c.name, func(t *testing.T) { expect(t, state(t, c.history), c.facts, c.want...) })
	}
	if len(places) != 20 {
		t.Errorf("%d of 20 places are covered", len(places))
	}
}
