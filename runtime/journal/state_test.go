package journal_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltext"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

const begun = `
session_created { agent: "coder" }
submission 1
input_accepted { ordinal: 1 parts { text: "do it" } }
turn_started { attempt: 1 }
`

const asked = begun + `
model_requested { provider: "anthropic" model: "m" attempt: 1 }
`

// answered asks for two calls: c1 is attached and free, c2 opaque and gated.
const answered = asked + `
model_completed { provider: "anthropic" model: "m" usage { input: 10 output: 2 }
  blocks { kind: BLOCK_KIND_TEXT raw: "{}" } blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{1}" } blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{2}" } }
tool_called { call_id: "c1" tool: "exec" class: EFFECT_CLASS_ATTACHED block: 1 policy: POLICY_ALLOW args_sha256: "d1" }
tool_called { call_id: "c2" tool: "mail" class: EFFECT_CLASS_OPAQUE block: 2 policy: POLICY_ASK args_sha256: "d2" }
`

const started = answered + `
tool_started { call_id: "c1" }
exec_started { call_id: "c1" exec_id: "x1" machine: "m1" epoch: "e1" fence: 1 }
`

const carded = started + `
approval_requested { approval_id: "a2" call_id: "c2" args_sha256: "d2" expires_at_ms: 5 }
`

func entries(t *testing.T, text string) []journal.Entry {
	t.Helper()
	parsed, err := journaltext.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func fold(t *testing.T, text string) *journal.State {
	t.Helper()
	state, err := journal.Fold(entries(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestPhaseFollowsTheEntries(t *testing.T) {
	cases := []struct {
		name, text string
		phase      journal.Phase
	}{
		{"made", `session_created {}`, journal.PhaseIdle},
		{"input", strings.TrimSuffix(begun, "turn_started { attempt: 1 }\n"), journal.PhaseAccepted},
		{"begun", begun, journal.PhaseNeedModel},
		{"asked", asked, journal.PhaseModelInFlight},
		{"partly answered", asked + `model_delta { text: "I will" }`, journal.PhaseModelInFlight},
		{"aborted", asked + `model_aborted { reason: "owner_died" retryable: true }`, journal.PhaseNeedModel},
		{"answered", answered, journal.PhaseToolsPending},
		{"cut in its batch", answered[:strings.Index(answered, "tool_called { call_id: \"c2\"")], journal.PhaseTorn},
		{"all results", started + `
			exec_exited { call_id: "c1" exec_id: "x1" }
			tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }
			tool_result { call_id: "c2" outcome: TOOL_OUTCOME_CANCELLED }`, journal.PhaseNeedModel},
		{"last answer", asked + `model_completed { provider: "anthropic" model: "m" blocks { kind: BLOCK_KIND_TEXT raw: "x" } }`, journal.PhaseSettling},
		{"settled", asked + `
			model_completed { provider: "anthropic" model: "m" }
			submission_settled { outcome: SETTLED_OUTCOME_COMPLETED }`, journal.PhaseIdle},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if phase := fold(t, c.text).Phase(); phase != c.phase {
				t.Errorf("phase is %s, not %s", phase, c.phase)
			}
		})
	}
}

func TestImpossibleOrdersAreRefused(t *testing.T) {
	const exited = `exec_exited { call_id: "c1" exec_id: "x1" }`
	const done = `tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK }`
	cases := []struct{ name, before, entry string }{
		{"a session that was not created", ``, `input_accepted { ordinal: 1 }`},
		{"created twice", `session_created {}`, `session_created {}`},
		{"a second input in the midst of a step", asked, "submission 2\ninput_accepted { ordinal: 2 }"},
		{"a second input before the first attempt", strings.TrimSuffix(begun, "turn_started { attempt: 1 }\n"), "submission 2\ninput_accepted { ordinal: 2 }"},
		{"an end of its own for what joined", begun + "submission 2\ninput_accepted { ordinal: 2 }", "submission_settled { outcome: SETTLED_OUTCOME_COMPLETED }"},
		{"the same input again", begun + "submission_settled { outcome: SETTLED_OUTCOME_CANCELLED }", `input_accepted { ordinal: 2 }`},
		{"an older input", begun + "submission_settled { outcome: SETTLED_OUTCOME_CANCELLED }\nsubmission 2", `input_accepted { ordinal: 1 }`},
		{"an attempt again", begun, `turn_started { attempt: 1 }`},
		{"a turn of nobody", `session_created {}`, `turn_started { attempt: 1 }`},
		{"a second model call", asked, `model_requested {}`},
		{"a model call before a result", answered, `model_requested {}`},
		{"an answer that was not asked for", begun, `model_completed {}`},
		{"another model's answer", asked, `model_completed { provider: "openai" model: "m" }`},
		{"text that was not asked for", begun, `model_delta { text: "x" }`},
		{"an abort of nothing", begun, `model_aborted { reason: "timeout" }`},
		{"a call that no block asks for", answered, `tool_called { call_id: "c3" class: EFFECT_CLASS_PURE block: 2 policy: POLICY_ALLOW }`},
		{"a call again", answered, `tool_called { call_id: "c1" class: EFFECT_CLASS_PURE block: 1 policy: POLICY_ALLOW }`},
		{"a nested call of no command", started, `tool_called { call_id: "x9/k" class: EFFECT_CLASS_PURE block: -1 policy: POLICY_ALLOW }`},
		{"a card for a free call", answered, `approval_requested { approval_id: "a" call_id: "c1" args_sha256: "d1" }`},
		// UKGovernmentBEIS/inspect_ai#4944: an approval is bound to what was shown.
		{"a card that shows something else", answered, `approval_requested { approval_id: "a" call_id: "c2" args_sha256: "other" }`},
		{"a decision without a card", answered, `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_APPROVED }`},
		{"a decision again", carded + `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_DENIED }`, `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_APPROVED }`},
		{"an edit without arguments", carded, `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_EDITED }`},
		{"a gated call without its approval", answered, `tool_started { call_id: "c2" }`},
		{"a gated call while the card is open", carded, `tool_started { call_id: "c2" approval_id: "a2" }`},
		{"another's approval", carded + `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_APPROVED }`, `tool_started { call_id: "c2" approval_id: "a9" }`},
		{"a denied call", carded + `approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_DENIED }`, `tool_started { call_id: "c2" approval_id: "a2" }`},
		{"a start again", started, `tool_started { call_id: "c1" }`},
		{"a command without its start", answered, `exec_started { call_id: "c1" exec_id: "x1" }`},
		{"a second command", started, `exec_started { call_id: "c1" exec_id: "x2" }`},
		{"an exit of nothing", answered, exited},
		{"an exit again", started + exited, exited},
		{"another command's exit", started, `exec_exited { call_id: "c1" exec_id: "x2" }`},
		{"success of a command that runs", started, done},
		{"success of what never started", answered, done},
		{"a result of nothing", answered, `tool_result { call_id: "c9" outcome: TOOL_OUTCOME_ERROR }`},
		{"a result again", started + exited + "\n" + done, done},
		{"a result while the card is open", carded, `tool_result { call_id: "c2" outcome: TOOL_OUTCOME_CANCELLED }`},
		{"a denial by nobody", answered, `tool_result { call_id: "c1" outcome: TOOL_OUTCOME_DENIED }`},
		{"an unknown end of what never started", answered, `tool_result { call_id: "c1" outcome: TOOL_OUTCOME_UNKNOWN }`},
		{"an end with a call open", answered, `submission_settled { outcome: SETTLED_OUTCOME_FAILED }`},
		{"an end with a model call open", asked, `submission_settled { outcome: SETTLED_OUTCOME_FAILED }`},
		{"an end that makes up an unknown call", begun, `submission_settled { outcome: SETTLED_OUTCOME_FAILED unknown_calls: "c1" }`},
		{"an end again", begun + "submission_settled { outcome: SETTLED_OUTCOME_CANCELLED }", `submission_settled { outcome: SETTLED_OUTCOME_CANCELLED }`},
		{"a queued one completed", begun, "submission 2\nsubmission_settled { outcome: SETTLED_OUTCOME_COMPLETED }"},
		{"a summary that hides an open call", answered, `compaction { upto_seq: 5 }`},
		{"a summary of the future", begun, `compaction { upto_seq: 9 }`},
		{"erasing what the fold needs", begun, `redaction { kind: 12 }`},
		{"an older owner", "fence 2\n" + begun, "fence 1\nturn_started { attempt: 2 }"},
		{"another session", begun, "session b\nturn_started { attempt: 2 }"},
		{"a fork of another", begun, "session b\nsession_forked { parent_id: \"$c\" parent_seq: 3 }"},
		{"a fork of itself", begun, "session b\nsession_forked { parent_id: \"$b\" parent_seq: 3 }"},
		{"a fork of another place", begun, "session b\nsession_forked { parent_id: \"$a\" parent_seq: 2 }"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := entries(t, c.before)
			state, err := journal.Fold(before)
			if err != nil {
				t.Fatal(err)
			}
			after, err := journaltext.ParseAfter(before, c.entry)
			if err != nil {
				t.Fatal(err)
			}
			err = state.Apply(after[len(after)-1])
			if order := new(journal.OrderError); !errors.As(err, &order) {
				t.Fatalf("Apply: %v", err)
			}
			untouched, err := journal.Fold(before)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(untouched, state); diff != "" {
				t.Errorf("the refused entry changed the state (-before +after):\n%s", diff)
			}
		})
	}
}

// OpenHands/software-agent-sdk#4487: there is no pointer to a head that could be torn from the entries. The head is the
// highest number, and a hole or a repeat below it is told.
func TestGapInTheNumbersIsRefused(t *testing.T) {
	all := entries(t, asked+"model_delta { text: \"a\" }\nmodel_delta { text: \"b\" }\nmodel_delta { text: \"c\" }")
	n := len(all)
	for name, journaled := range map[string][]journal.Entry{
		"a hole":   append(all[:n-2:n-2], all[n-1]),
		"a repeat": append(all[:n:n], all[n-1]),
		"swapped":  append(all[:n-2:n-2], all[n-1], all[n-2]),
	} {
		if _, err := journal.Fold(journaled); err == nil {
			t.Errorf("a journal with %s folded", name)
		}
	}
}

func TestEntryOfAnUnknownKindRefusesTheSession(t *testing.T) {
	state := fold(t, begun)
	err := state.Apply(journal.Entry{Session: state.Session, Seq: 4, Fence: 1, Kind: 99, Body: new(journalv1.Body)})
	if err == nil || state.Seq != 3 {
		t.Errorf("error %v, seq %d", err, state.Seq)
	}
}

func TestEditIsWhatMayRun(t *testing.T) {
	state := fold(t, carded+`approval_decided { approval_id: "a2" call_id: "c2" decision: DECISION_EDITED args: "{\"to\":\"me\"}" by: "p" }`)
	call := state.Calls["c2"]
	if call.State != journal.CallApproved || string(call.EditedArgs()) != `{"to":"me"}` || !cmp.Equal(call.ArgsSHA256, journal.ArgsSHA256(call.EditedArgs())) {
		t.Errorf("call is %+v", call)
	}
}

// The fold of a fork closes what the parent had under way, at any cut.
func TestForkInheritsNothingUnderWay(t *testing.T) {
	parent := entries(t, carded)
	for cut := 1; cut <= len(parent); cut++ {
		forked, err := journaltext.ParseAfter(parent[:cut:cut], "session b\nfence 0\nsubmission -\nsession_forked { parent_id: \"$a\" parent_seq: "+strconv.Itoa(cut)+" }\nsubmission 9\ninput_accepted { ordinal: 1 }")
		if err != nil {
			t.Fatal(err)
		}
		state, err := journal.Fold(forked)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if len(state.Pending()) > 0 || state.Request != nil || state.Phase() != journal.PhaseAccepted {
			t.Errorf("cut at %d: %d calls pending, phase %s", cut, len(state.Pending()), state.Phase())
		}
		if answer := lastAnswer(state); answer != nil && answer.Torn() {
			t.Errorf("cut at %d: half an answer is in the conversation", cut)
		}
		for id, call := range state.Calls {
			if !call.Settled() || string(call.Result.Content) != journal.ForkedContent || call.Approval != nil && call.Approval.Pending() {
				t.Errorf("cut at %d: call %s is %s", cut, id, call.State)
			}
		}
	}
}

// A fork so deep that it was given a copy of its history has the parent's entries under its own id.
func TestCopiedForkIsTheFork(t *testing.T) {
	const forked = "\nfence 0\nsubmission -\nsession_forked { parent_id: \"$a\" parent_seq: 9 }\n"
	want := fold(t, carded[:strings.Index(carded, "approval_requested")]+"session b"+forked)
	got := fold(t, "session b\n"+carded[:strings.Index(carded, "approval_requested")]+forked)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// anomalyco/opencode#46102, Fergana-Labs/stash#1077: two entries of one millisecond.
func TestTimeOrdersNothing(t *testing.T) {
	all := entries(t, carded)
	want, err := journal.Fold(all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].At = all[0].At.Add(-1)
	}
	got, err := journal.Fold(all)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryStandsForWhatItCovers(t *testing.T) {
	state := fold(t, started+`
		exec_exited { call_id: "c1" exec_id: "x1" }
		tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK content: "long" }
		tool_result { call_id: "c2" outcome: TOOL_OUTCOME_CANCELLED }
		compaction { upto_seq: 12 summary: "he asked, I did" }`)
	if len(state.Conversation) != 1 || string(state.Conversation[0].Summary.Text) != "he asked, I did" {
		t.Errorf("conversation is %+v", state.Conversation)
	}
	if state.Calls["c1"].Result.Content != nil {
		t.Error("a hidden result is still kept")
	}
}

func TestErasedEntriesLeaveTheirPlace(t *testing.T) {
	state := fold(t, `
		session_created { agent: "coder" }
		submission 1
		redaction { kind: 3 }
		turn_started { attempt: 1 }
		model_requested { provider: "anthropic" model: "m" attempt: 1 }
		redaction { kind: 7 }
		tool_called { call_id: "c2" tool: "mail" class: EFFECT_CLASS_OPAQUE block: 2 policy: POLICY_ASK args_sha256: "d2" }
		approval_requested { approval_id: "a2" call_id: "c2" args_sha256: "d2" expires_at_ms: 5 }
		redaction { kind: 11 reason: "call c2" }
		tool_started { call_id: "c2" approval_id: "a2" }
		redaction { kind: 16 reason: "call c2" }`)
	if state.Phase() != journal.PhaseNeedModel || state.Redacted != 4 || string(state.Calls["c2"].Result.Content) != journal.RedactedContent {
		t.Errorf("phase %s, %d redacted, call %+v", state.Phase(), state.Redacted, state.Calls["c2"])
	}
}

func TestInputThatJoinsEndsWithItsHost(t *testing.T) {
	joined := begun + "submission 2\ninput_accepted { ordinal: 2 parts { text: \"and that\" } }\nsubmission 1\n"
	state := fold(t, joined)
	if open := state.Open(); open.Ordinal != 1 || state.Phase() != journal.PhaseNeedModel || len(state.Conversation) != 2 {
		t.Errorf("open is %d, phase %s", open.Ordinal, state.Phase())
	}
	state = fold(t, joined+`submission_settled { outcome: SETTLED_OUTCOME_CANCELLED }`)
	for _, submission := range state.Submissions {
		if submission.Outcome != journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED || submission.SettledSeq != 5 {
			t.Errorf("submission %d: %s at %d", submission.Ordinal, submission.Outcome, submission.SettledSeq)
		}
	}
}

func TestNestedCallBelongsToItsCommand(t *testing.T) {
	state := fold(t, started+`
		tool_called { call_id: "x1/k1" tool: "crm" class: EFFECT_CLASS_KEYED block: -1 policy: POLICY_ASK args_sha256: "d3" }
		approval_requested { approval_id: "a3" call_id: "x1/k1" args_sha256: "d3" expires_at_ms: 5 }`)
	call := state.Calls["x1/k1"]
	if !call.Nested() || call.Within != "x1" || len(state.Pending()) != 3 || len(lastAnswer(state).Calls) != 2 {
		t.Errorf("call %+v, %d pending", call, len(state.Pending()))
	}
}

// lastAnswer is the newest answer of the conversation, nil when there is none.
func lastAnswer(s *journal.State) *journal.Answer {
	for _, item := range slices.Backward(s.Conversation) {
		if item.Answer != nil {
			return item.Answer
		}
	}
	return nil
}
