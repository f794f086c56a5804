package turn_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

const (
	opaque = journalv1.EffectClass_EFFECT_CLASS_OPAQUE
	pure   = journalv1.EffectClass_EFFECT_CLASS_PURE

	wasDenied    = journalv1.ToolOutcome_TOOL_OUTCOME_DENIED
	wasCancelled = journalv1.ToolOutcome_TOOL_OUTCOME_CANCELLED
)

func here(change func(*turn.Facts)) turn.Facts {
	f := turn.Facts{Fence: 1, Attempt: 1, Trusted: true}
	if change != nil {
		change(&f)
	}
	return f
}

func running(calls ...string) map[string]bool {
	m := map[string]bool{}
	for _, call := range calls {
		m[call] = true
	}
	return m
}

func queued(name string, policy turn.OnBusy) []turn.Queued {
	return []turn.Queued{{ID: journaltext.Submission(name), Policy: policy}}
}

// mixed asks for a gated call c1 and a free one c2.
const mixed = completedHead + `  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"t\",\"input\":{}}" }
  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"t\",\"input\":{}}" } }
tool_called { call_id: "c1" tool: "t" class: EFFECT_CLASS_OPAQUE block: 1 policy: POLICY_ASK args_sha256: "d1" }
tool_called { call_id: "c2" tool: "t" class: EFFECT_CLASS_OPAQUE block: 2 policy: POLICY_ALLOW args_sha256: "d2" }
`

// openai/openai-agents-python#3004, microsoft/agent-framework#6910: one gated and one free call in one batch.
func TestFreeCallDoesNotWaitForAGatedOne(t *testing.T) {
	free := turn.StartTool{Call: "c2", Class: opaque, Journaled: true}
	expect(t, state(t, mixed), here(nil), turn.OpenApproval{Call: "c1"}, free)
	expect(t, state(t, mixed+card), here(nil), free)
	const one = mixed + card + `tool_started { call_id: "c2" }` + "\n"
	expect(t, state(t, one), here(func(f *turn.Facts) { f.Running = running("c2") }))
	expect(t, state(t, one+`tool_result { call_id: "c2" outcome: TOOL_OUTCOME_OK content: "kept" }`), here(nil), turn.Park{})
}

// langchain-ai/langgraph#4397, langchain-ai/langgraph#6208: two gated calls, one answered.
func TestAnsweredCardRunsWhileTheOtherWaits(t *testing.T) {
	two := strings.ReplaceAll(mixed, "POLICY_ALLOW", "POLICY_ASK") + card + `
approval_requested { approval_id: "a2" call_id: "c2" args_sha256: "d2" expires_at_ms: 5 }
`
	expect(t, state(t, two), here(nil), turn.Park{})
	expect(t, state(t, two), here(func(f *turn.Facts) { f.Decisions = []turn.Decision{approved} }), turn.DeliverDecision{Call: "c1", Decision: approved})
	expect(t, state(t, two+granted), here(nil), turn.StartTool{Call: "c1", Class: opaque, Journaled: true, ApprovalID: "a1"})
	ran := two + granted + `
tool_started { call_id: "c1" approval_id: "a1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }
`
	expect(t, state(t, ran), here(nil), turn.Park{})
}

// andrewyng/openworker#443: an approved mail was sent, and the process killed before the result.
func TestApprovalIsGoodForOneStart(t *testing.T) {
	sent := oneCall("OPAQUE", "ASK") + card + granted + `tool_started { call_id: "c1" approval_id: "a1" }` + tookOver
	s := state(t, sent)
	if !s.Calls["c1"].Approval.Consumed {
		t.Error("the approval is not consumed by the start")
	}
	expect(t, s, heir(), turn.SettleUnknown{Call: "c1"})
}

// openai/openai-agents-python#4244, openai/openai-agents-python#2487, openai/openai-agents-js#131: a decision survives any number of owners, and
// omnigent-ai/omnigent#5144, NeoLabs-Systems/NeoAgent#86, MervinPraison/PraisonAI#2326: so does an open card.
func TestCardSurvivesOwnersAndIsNotOpenedAgain(t *testing.T) {
	carded := oneCall("OPAQUE", "ASK") + card + tookOver + "fence 3\nturn_started { attempt: 3 }\n"
	facts := func(decisions ...turn.Decision) turn.Facts {
		return turn.Facts{Fence: 3, Attempt: 3, Trusted: true, Decisions: decisions}
	}
	expect(t, state(t, carded), facts(), turn.Park{})
	expect(t, state(t, carded), facts(approved), turn.DeliverDecision{Call: "c1", Decision: approved})
}

func TestDecisionsOfACard(t *testing.T) {
	decided := func(decision string) string {
		return oneCall("OPAQUE", "ASK") + card + `approval_decided { approval_id: "a1" call_id: "c1" ` + decision + ` }`
	}
	start := turn.StartTool{Call: "c1", Class: opaque, Journaled: true, ApprovalID: "a1"}
	denied := func(content string) turn.SettleCall {
		return turn.SettleCall{Call: "c1", Outcome: wasDenied, Content: content}
	}
	cases := map[string]struct {
		decision string
		want     turn.Action
	}{
		"approved":          {`decision: DECISION_APPROVED`, start},
		"edited":            {`decision: DECISION_EDITED args: "{}"`, start},
		"denied":            {`decision: DECISION_DENIED`, denied("Denied by a person. It was not done.")},
		"denied for reason": {`decision: DECISION_DENIED reason: "not on Fridays"`, denied("Denied: not on Fridays. It was not done.")},
		"expired":           {`decision: DECISION_EXPIRED`, denied("Denied: nobody approved it in time. It was not done.")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { expect(t, state(t, decided(c.decision)), here(nil), c.want) })
	}
	t.Run("by policy", func(t *testing.T) {
		expect(t, state(t, oneCall("OPAQUE", "DENY")), here(nil), denied("Denied: this agent may not do that."))
	})
	t.Run("too late", func(t *testing.T) {
		expect(t, state(t, said), here(func(f *turn.Facts) { f.Decisions = []turn.Decision{approved} }),
			turn.DropDecision{Decision: approved}, turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED})
	})
}

// letta-ai/lettabot#127, letta-ai/lettabot#479, letta-ai/letta-code#885: a client vanishes with a card open, and the user writes.
func TestInputIsTakenWhileACardIsOpen(t *testing.T) {
	carded := state(t, oneCall("OPAQUE", "ASK")+card)
	expect(t, carded, here(func(f *turn.Facts) { f.Queued = queued("2", turn.Queue) }), turn.Park{})
	expect(t, carded, here(func(f *turn.Facts) { f.Queued = queued("2", turn.Answer) }),
		turn.DeliverDecision{Call: "c1", Here: true, Decision: turn.Decision{
			ApprovalID: "a1", Decision: journalv1.Decision_DECISION_DENIED, By: turn.ByInput, Reason: "the user wrote something else instead",
		}})
	expect(t, carded, here(func(f *turn.Facts) { f.Queued = queued("2", turn.Interrupt) }),
		turn.DeliverDecision{Call: "c1", Here: true, Decision: turn.Decision{
			ApprovalID: "a1", Decision: journalv1.Decision_DECISION_CANCELLED, By: turn.ByEnd, Reason: "interrupted by a newer input",
		}})
}

// NousResearch/hermes-agent#64934, strands-agents/harness-sdk#1176: a second message in a slow turn waits its turn.
func TestSecondInputWaits(t *testing.T) {
	expect(t, state(t, requested), here(func(f *turn.Facts) { f.ModelRunning, f.Queued = true, queued("2", turn.Queue) }))
	settled := said + `submission_settled { outcome: SETTLED_OUTCOME_COMPLETED }`
	expect(t, state(t, settled), here(func(f *turn.Facts) { f.Queued = queued("2", turn.Queue) }), turn.AcceptInput{Submission: journaltext.Submission("2")})
}

func TestInputJoinsBetweenTheStepsOfATurn(t *testing.T) {
	second := journaltext.Submission("2")
	join := func(f *turn.Facts) { f.Joining = []uuid.UUID{second} }
	accept := turn.AcceptInput{Submission: second, Joins: true}
	expect(t, state(t, begun), here(join), accept)
	expect(t, state(t, said), here(join), accept)
	expect(t, state(t, requested), here(func(f *turn.Facts) { join(f); f.ModelRunning = true }))
	expect(t, state(t, oneCall("OPAQUE", "ASK")+card), here(join), turn.DeliverDecision{Call: "c1", Here: true, Decision: turn.Decision{
		ApprovalID: "a1", Decision: journalv1.Decision_DECISION_DENIED, By: turn.ByInput, Reason: "the user wrote something else instead",
	}})
	joined := said + "submission 2\ninput_accepted { ordinal: 2 parts { text: \"and that\" } }\n"
	expect(t, state(t, joined), here(nil), turn.AskModel{Try: 1})
}

func TestQueuedInputCanBeCancelled(t *testing.T) {
	expect(t, state(t, created), here(func(f *turn.Facts) {
		f.Queued = append(queued("2", turn.Queue), turn.Queued{ID: journaltext.Submission("3"), Cancel: true})
	}), turn.Settle{Submission: journaltext.Submission("3"), Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED, Error: "cancelled before it began"})
}

func TestCancelClosesEachThingInItsWay(t *testing.T) {
	const content = "Cancelled before it was done: cancelled."
	cancel := func(f turn.Facts) turn.Facts { f.Cancel = true; return f }
	end := turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED, Error: "cancelled"}
	closed := turn.SettleCall{Call: "c1", Outcome: wasCancelled, Content: content}
	startedOpaque := oneCall("OPAQUE", "ALLOW") + `tool_started { call_id: "c1" }`
	execs := oneCall("ATTACHED", "ALLOW") + exec
	signal, resume := turn.SignalExec{Call: "c1", Exec: "x1"}, turn.ResumeExec{Call: "c1", Exec: "x1"}
	cases := []struct {
		name, history string
		facts         turn.Facts
		want          []turn.Action
	}{
		{"nothing asked yet", begun, here(nil), []turn.Action{end}},
		{"model asked", requested, here(func(f *turn.Facts) { f.ModelRunning = true }), []turn.Action{turn.AbortModel{Reason: "cancelled"}}},
		{"answered already", said, here(nil), []turn.Action{turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED}}},
		{"not started", oneCall("OPAQUE", "ALLOW"), here(nil), []turn.Action{closed}},
		{"approved, not started", oneCall("OPAQUE", "ASK") + card + granted, here(nil), []turn.Action{closed}},
		{"card open", oneCall("OPAQUE", "ASK") + card, here(nil), []turn.Action{turn.DeliverDecision{Call: "c1", Here: true, Decision: turn.Decision{
			ApprovalID: "a1", Decision: journalv1.Decision_DECISION_CANCELLED, By: turn.ByEnd, Reason: "cancelled",
		}}}},
		{"card decided first", oneCall("OPAQUE", "ASK") + card, here(func(f *turn.Facts) { f.Decisions = []turn.Decision{approved} }), []turn.Action{turn.DeliverDecision{Call: "c1", Decision: approved}}},
		{"pure, running", oneCall("PURE", "ALLOW"), here(func(f *turn.Facts) { f.Running = running("c1") }), []turn.Action{turn.StopCall{Call: "c1"}, closed}},
		{"opaque, running", startedOpaque, here(func(f *turn.Facts) { f.Running = running("c1") }), []turn.Action{turn.StopCall{Call: "c1"}}},
		{"opaque, told to stop", startedOpaque, here(func(f *turn.Facts) { f.Running, f.Stopped = running("c1"), running("c1") }), nil},
		{"opaque, past its grace", startedOpaque, here(func(f *turn.Facts) { f.Running, f.GraceOver = running("c1"), true }), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{"opaque, its owner dead", startedOpaque, here(nil), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{"command, followed", execs, here(func(f *turn.Facts) { f.Running = running("c1") }), []turn.Action{signal}},
		{"command, not followed", execs, here(nil), []turn.Action{signal, resume}},
		{"command, signalled", execs, here(func(f *turn.Facts) { f.Running, f.Stopped = running("c1"), running("c1") }), nil},
		{"command, past its grace", execs, here(func(f *turn.Facts) { f.GraceOver = true }), []turn.Action{turn.SettleUnknown{Call: "c1"}}},
		{"all closed", oneCall("OPAQUE", "ALLOW") + `tool_result { call_id: "c1" outcome: TOOL_OUTCOME_CANCELLED }`, here(nil), []turn.Action{end}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { expect(t, state(t, c.history), cancel(c.facts), c.want...) })
	}
}

func TestDeadlineFailsWhatCancelCancels(t *testing.T) {
	deadline := here(func(f *turn.Facts) { f.DeadlinePassed = true })
	expect(t, state(t, begun), deadline, turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED, Error: "its deadline passed"})
	expect(t, state(t, oneCall("OPAQUE", "ALLOW")), deadline,
		turn.SettleCall{Call: "c1", Outcome: wasCancelled, Content: "Cancelled before it was done: its deadline passed."})
}

// openclaw/openclaw#124941, vectorize-io/hindsight#2675: a turn that kills its process, restarted for ever.
func TestTurnThatKillsItsOwnersIsGivenUp(t *testing.T) {
	poison := turn.Facts{Fence: 6, Attempt: turn.MaxAttempts + 1, Trusted: true}
	execs := oneCall("ATTACHED", "ALLOW") + exec
	expect(t, state(t, execs), turn.Facts{Fence: 5, Attempt: turn.MaxAttempts, Trusted: true}, turn.StartTurn{Attempt: turn.MaxAttempts})
	// Nothing is appended to say that it is tried once more, and nothing is touched.
	expect(t, state(t, execs), poison, turn.SettleUnknown{Call: "c1"})
	expect(t, state(t, requested), poison, turn.AbortModel{Reason: "owner_died"})
	s := state(t, execs+`tool_result { call_id: "c1" outcome: TOOL_OUTCOME_UNKNOWN }`)
	expect(t, s, poison, turn.Settle{
		Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED,
		Error: "given up: 5 processes died over it", Unknown: []string{"c1"},
	})
	if left := s.Calls["c1"].Exec.State; left != journal.ExecLeft {
		t.Errorf("its command is %s", left)
	}
}

func aborted(reason string, retryable bool, times int) string {
	line := `model_aborted { reason: "` + reason + `" message: "busy" }`
	if retryable {
		line = `model_aborted { reason: "` + reason + `" retryable: true message: "busy" }`
	}
	return begun + strings.Repeat(`model_requested { provider: "anthropic" model: "m" attempt: 1 }`+"\n"+line+"\n", times)
}

func TestModelIsAskedAgainAfterAWaitThatHoldsNothing(t *testing.T) {
	busy := state(t, aborted("overloaded", true, 2))
	expect(t, busy, here(nil), turn.Release{Why: turn.BackingOff, Tries: 2})
	// Claimed again: the wait is over.
	expect(t, busy, turn.Facts{Fence: 2, Attempt: 1, Trusted: true}, turn.AskModel{Try: 3})
	expect(t, state(t, aborted("overloaded", true, 8)), here(nil), turn.Settle{
		Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED,
		Error: "the model gave no answer (overloaded, tried 8 times): busy",
	})
	// Deaths of owners are counted by their attempts.
	expect(t, state(t, aborted("owner_died", true, 9)), here(nil), turn.AskModel{Try: 1})
}

// PrimeIntellect-ai/prime-agent#1490: a deterministic 400, retried for ever.
func TestRefusedRequestIsRepairedOnce(t *testing.T) {
	expect(t, state(t, aborted("refused", false, 1)), here(nil), turn.AskModel{Try: 2, Plain: true})
	expect(t, state(t, aborted("refused", false, 2)), here(nil), turn.Settle{
		Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED,
		Error: "the model gave no answer (refused, tried 2 times): busy",
	})
	expect(t, state(t, aborted("auth", false, 1)), here(nil), turn.Settle{
		Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED,
		Error: "the model gave no answer (auth, tried 1 times): busy",
	})
}

func TestTooLongAConversationIsSummarisedOnce(t *testing.T) {
	const tooLong = `model_requested { provider: "anthropic" model: "m" attempt: 1 }
model_aborted { reason: "too_long" }
`
	history := oneCall("OPAQUE", "ALLOW") + `tool_started { call_id: "c1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK content: "long" }
` + tooLong
	expect(t, state(t, history), here(nil), turn.Compact{UptoSeq: 4})
	history += `compaction { upto_seq: 4 summary: "short" }` + "\n"
	expect(t, state(t, history), here(nil), turn.AskModel{Try: 1})
	expect(t, state(t, history+tooLong), here(nil), turn.Settle{
		Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED,
		Error: "the model gave no answer (too_long, tried 1 times)",
	})
}

func TestNothingBeginsUnderALeaseThatMayBeOver(t *testing.T) {
	for _, history := range []string{created, begun, requested, oneCall("OPAQUE", "ALLOW"), said} {
		expect(t, state(t, history), here(func(f *turn.Facts) { f.Trusted = false }))
	}
}

// cardstack/boxel#4860, livekit-examples/agent-deployment#20: a replica that stops gives its sessions up at the next
// entry, however long a command takes.
func TestDrainingGivesUpAtTheNextEntry(t *testing.T) {
	drain := func(change func(*turn.Facts)) turn.Facts {
		f := here(change)
		f.Draining = true
		return f
	}
	startedOpaque := oneCall("OPAQUE", "ALLOW") + `tool_started { call_id: "c1" }`
	release := turn.Release{Why: turn.Draining}
	expect(t, state(t, requested), drain(func(f *turn.Facts) { f.ModelRunning = true }), turn.AbortModel{Reason: "released", Retryable: true})
	expect(t, state(t, oneCall("ATTACHED", "ALLOW")+exec), drain(func(f *turn.Facts) { f.Running = running("c1") }), release)
	expect(t, state(t, oneCall("OPAQUE", "ALLOW")), drain(nil), release)
	expect(t, state(t, startedOpaque), drain(func(f *turn.Facts) { f.Running = running("c1") }))
	expect(t, state(t, startedOpaque), drain(func(f *turn.Facts) { f.Running, f.GraceOver = running("c1"), true }), release)
	expect(t, state(t, oneCall("OPAQUE", "ASK")+card), drain(nil), turn.Park{})
	expect(t, state(t, said), drain(nil), turn.Settle{Submission: first, Outcome: journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED})
	expect(t, state(t, created), drain(func(f *turn.Facts) { f.Queued = queued("1", turn.Queue) }), release)
}

// nested is a command that asks a person in its midst.
const nested = `
tool_called { call_id: "x1/k" tool: "crm" class: EFFECT_CLASS_KEYED block: -1 policy: POLICY_ASK args_sha256: "d9" }
approval_requested { approval_id: "a9" call_id: "x1/k" args_sha256: "d9" expires_at_ms: 5 }
`

// UsefulSoftwareCo/executor#1437: granted inside its window, and the command's clock had run out.
func TestClockOfACommandStandsWhileItAsks(t *testing.T) {
	asking := oneCall("ATTACHED", "ALLOW") + exec + nested
	hold := turn.HoldExec{Exec: "x1", Hold: true}
	expect(t, state(t, asking), here(func(f *turn.Facts) { f.Running = running("c1") }), hold)
	held := here(func(f *turn.Facts) { f.Running, f.Held = running("c1"), running("x1") })
	expect(t, state(t, asking), held, turn.Park{})
	expect(t, state(t, asking), here(func(f *turn.Facts) { f.Held, f.Ended = running("x1"), running("x1") }),
		turn.HoldExec{Exec: "x1"}, turn.ResumeExec{Call: "c1", Exec: "x1"})
	granted := asking + `approval_decided { approval_id: "a9" call_id: "x1/k" decision: DECISION_APPROVED }`
	expect(t, state(t, granted), held, turn.HoldExec{Exec: "x1"},
		turn.StartTool{Call: "x1/k", Class: journalv1.EffectClass_EFFECT_CLASS_KEYED, Journaled: true, ApprovalID: "a9", Key: turn.IdempotencyKey(journaltext.Session("a"), "x1/k")})
}

// UKGovernmentBEIS/inspect_ai#4944: a call from within the sandbox meets the same policy as the model's.
func TestNestedCallMeetsTheSamePolicy(t *testing.T) {
	for policy, want := range map[string]turn.Action{
		"ASK":  turn.OpenApproval{Call: "x1/k"},
		"DENY": turn.SettleCall{Call: "x1/k", Outcome: wasDenied, Content: "Denied: this agent may not do that."},
	} {
		history := oneCall("ATTACHED", "ALLOW") + exec + `tool_called { call_id: "x1/k" tool: "crm" class: EFFECT_CLASS_OPAQUE block: -1 policy: POLICY_` + policy + ` }`
		expect(t, state(t, history), here(func(f *turn.Facts) { f.Running = running("c1") }), want)
	}
}

func TestNestedCallEndsWithItsCommand(t *testing.T) {
	ended := oneCall("ATTACHED", "ALLOW") + exec + nested + `
exec_exited { call_id: "c1" exec_id: "x1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }
`
	expect(t, state(t, ended), here(nil), turn.DeliverDecision{Call: "x1/k", Here: true, Decision: turn.Decision{
		ApprovalID: "a9", Decision: journalv1.Decision_DECISION_CANCELLED, By: turn.ByEnd, Reason: "the command that asked for it ended",
	}})
	expect(t, state(t, ended+`approval_decided { approval_id: "a9" call_id: "x1/k" decision: DECISION_CANCELLED }`), here(nil),
		turn.SettleCall{Call: "x1/k", Outcome: wasCancelled, Content: "Cancelled before anybody decided. It was not done."})
}

// langchain-ai/langgraph#7417, langchain-ai/langgraph#7213: a slow tool is not started a second time.
func TestRunningCallIsLeftAlone(t *testing.T) {
	for _, class := range []string{"PURE", "OPAQUE"} {
		history := oneCall(class, "ALLOW")
		if class == "OPAQUE" {
			history += `tool_started { call_id: "c1" }`
		}
		expect(t, state(t, history), here(func(f *turn.Facts) { f.Running = running("c1") }))
	}
	expect(t, state(t, oneCall("ATTACHED", "ALLOW")+exec), here(func(f *turn.Facts) { f.Running = running("c1") }))
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	var blocks, calls strings.Builder
	for _, id := range strings.Split("abcdefghijklmnopqrst", "") {
		blocks.WriteString(`  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"` + id + `\",\"name\":\"t\"}" }` + "\n")
	}
	for i, id := range strings.Split("abcdefghijklmnopqrst", "") {
		calls.WriteString(`tool_called { call_id: "` + id + `" tool: "t" class: EFFECT_CLASS_PURE block: ` + strconv.Itoa(i+1) + ` policy: POLICY_ALLOW }` + "\n")
	}
	s := state(t, completedHead+blocks.String()+"  }\n"+calls.String())
	if got := len(turn.Next(s, here(nil))); got != turn.MaxRunning {
		t.Errorf("%d of 20 start at once", got)
	}
	if got := turn.Next(s, here(func(f *turn.Facts) { f.Running = running(strings.Split("abcdefghijklmnop", "")...) })); len(got) != 0 {
		t.Errorf("while 16 run: %v", got)
	}
	if got := turn.Next(s, here(func(f *turn.Facts) { f.Running = running(strings.Split("abcdefghijklmno", "")...) })); cmp.Diff(got, []turn.Action{turn.StartTool{Call: "p", Class: pure}}) != "" {
		t.Errorf("while 15 run: %v", got)
	}
}

func TestTornAnswerIsAskedForAgain(t *testing.T) {
	torn := mixed[:strings.Index(mixed, `tool_called { call_id: "c2"`)]
	expect(t, state(t, torn), heir(), turn.StartTurn{Attempt: 2})
	expect(t, state(t, torn), here(nil), turn.AbortModel{Reason: "torn", Retryable: true})
	s := state(t, torn+`model_aborted { reason: "torn" retryable: true }`)
	expect(t, s, here(nil), turn.AskModel{Try: 1})
	answered := slices.ContainsFunc(s.Conversation, func(i journal.Item) bool { return i.Answer != nil })
	if len(s.Calls) != 0 || answered {
		t.Error("a part of the answer is left")
	}
}

// What a running command asks for is taken once, also when its places are taken by commands that wait; what an ended one asks
// for is not.
func TestCallOfACommandIsTaken(t *testing.T) {
	asks := func(call string) func(*turn.Facts) {
		return func(f *turn.Facts) {
			f.Running, f.Asked = running("c1"), []turn.Asked{{Call: call, Exec: "x1"}}
		}
	}
	expect(t, state(t, oneCall("ATTACHED", "ALLOW")+exec), here(asks("x1/k")), turn.TakeCall{Call: "x1/k"})
	taken := oneCall("ATTACHED", "ALLOW") + exec + `tool_called { call_id: "x1/k" tool: "crm" class: EFFECT_CLASS_OPAQUE block: -1 policy: POLICY_ALLOW }`
	start := turn.StartTool{Call: "x1/k", Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Journaled: true}
	expect(t, state(t, taken), here(asks("x1/k")), start)
	full := here(func(f *turn.Facts) {
		f.Running = running("c1")
		for i := range turn.MaxRunning {
			f.Running[fmt.Sprint("other", i)] = true
		}
	})
	expect(t, state(t, taken), full, start)
	ended := oneCall("ATTACHED", "ALLOW") + exec + `
exec_exited { call_id: "c1" exec_id: "x1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }
`
	for _, action := range turn.Next(state(t, ended), here(asks("x1/k"))) {
		if _, takes := action.(turn.TakeCall); takes {
			t.Error("a call is taken whose command has ended")
		}
	}
}
