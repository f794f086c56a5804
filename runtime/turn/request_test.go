package turn_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

const thinking = `{"type":"thinking","thinking":"","signature":"c2ln+/=="}`

// thought is an answer that thinks, speaks and calls, with its result.
const thought = requested + `
model_completed { provider: "anthropic" model: "m" stop_reason: "tools"
  blocks { kind: BLOCK_KIND_THINKING raw: "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"c2ln+/==\"}" }
  blocks { kind: BLOCK_KIND_TEXT raw: "{\"type\":\"text\",\"text\":\"\"}" }
  blocks { kind: BLOCK_KIND_TOOL_CALL raw: "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"t\",\"input\":{\"b\":1, \"a\":2}}" } }
tool_called { call_id: "c1" tool: "t" class: EFFECT_CLASS_OPAQUE block: 2 policy: POLICY_ALLOW args_sha256: "d1" }
tool_started { call_id: "c1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK content: "a\000b" }
`

func request(t *testing.T, history string, agent turn.Agent, plain bool) model.Request {
	t.Helper()
	r, err := turn.Request(state(t, history), agent, plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	return r
}

func raws(r model.Request) []string {
	var all []string
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			if b.Raw != nil {
				all = append(all, string(b.Raw))
			}
		}
	}
	return all
}

var claude = turn.Agent{Provider: "anthropic", Model: "m"}

// anthropics/claude-code#63147: an empty thinking text with its signature must go back as it came.
func TestBlocksGoBackByteForByte(t *testing.T) {
	want := []string{thinking, `{"type":"tool_use","id":"c1","name":"t","input":{"b":1, "a":2}}`}
	if diff := cmp.Diff(want, raws(request(t, thought, claude, false))); diff != "" {
		t.Error(diff)
	}
}

// openclaw/openclaw#120596: thinking is left out when the model is another one, never altered.
func TestThinkingIsLeftOutForAnotherModel(t *testing.T) {
	for name, agent := range map[string]turn.Agent{
		"another model":    {Provider: "anthropic", Model: "m2"},
		"another provider": {Provider: "openai", Model: "m"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, thought, agent, false)
			for _, m := range r.Messages {
				for _, b := range m.Blocks {
					if b.Kind == model.KindThinking || bytes.Contains(b.Raw, []byte("thinking")) {
						t.Errorf("thinking is sent: %s", b.Raw)
					}
				}
			}
		})
	}
	if got := raws(request(t, thought, claude, true)); len(got) != 1 {
		t.Errorf("the plain request holds %q", got)
	}
}

func TestPartialTextIsNeverSentBack(t *testing.T) {
	history := requested + `model_delta { text: "I will certainly" }
model_aborted { reason: "owner_died" retryable: true }`
	want := []model.Message{model.User(model.Text("do it"))}
	if diff := cmp.Diff(want, request(t, history, claude, false).Messages, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestResultsComeInTheOrderOfTheCalls(t *testing.T) {
	history := threeCalls + `
tool_started { call_id: "c3" }
tool_result { call_id: "c3" outcome: TOOL_OUTCOME_OK content: "three" }
tool_started { call_id: "c1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_UNKNOWN content: "one" }
tool_started { call_id: "c2" }
tool_result { call_id: "c2" outcome: TOOL_OUTCOME_OK content: " " }
`
	got := request(t, history, claude, false).Messages[2]
	want := model.User(model.Result("c1", true, model.Text("one")), model.Result("c2", false, model.Text("(no output)")), model.Result("c3", false, model.Text("three")))
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestModelIsToldWhatAPersonChanged(t *testing.T) {
	history := oneCall("OPAQUE", "ASK") + card + `
approval_decided { approval_id: "a1" call_id: "c1" decision: DECISION_EDITED args: "{\"to\":\"me\"}" by: "ann" }
tool_started { call_id: "c1" approval_id: "a1" }
tool_result { call_id: "c1" outcome: TOOL_OUTCOME_OK content: "sent" }
`
	got := request(t, history, claude, false).Messages[2].Blocks[0].Content[0].Text
	if want := "(A person changed the arguments to {\"to\":\"me\"})\nsent"; got != want {
		t.Errorf("the model is told %q", got)
	}
}

func TestCallWithoutResultIsNotSent(t *testing.T) {
	if _, err := turn.Request(state(t, oneCall("OPAQUE", "ALLOW")), claude, false); !errors.Is(err, turn.ErrNotAsking) {
		t.Errorf("Request: %v", err)
	}
	if _, err := turn.Request(state(t, created), claude, false); !errors.Is(err, turn.ErrNotAsking) {
		t.Errorf("Request of nothing: %v", err)
	}
}

func TestPausedAnswerGoesOn(t *testing.T) {
	history := requested + `model_completed { provider: "anthropic" model: "m" stop_reason: "paused" blocks { kind: BLOCK_KIND_TEXT raw: "{\"type\":\"text\",\"text\":\"so far\"}" } }`
	expect(t, state(t, history), here(nil), turn.AskModel{Try: 1})
	if m := request(t, history, claude, false).Messages; len(m) != 2 || m[1].Role != model.RoleAssistant {
		t.Errorf("messages are %+v", m)
	}
}

func TestImagesAreSentAndOtherFilesNamed(t *testing.T) {
	history := created + `
submission 1
input_accepted { ordinal: 1
  parts { attachment { name: "a.png" media_type: "image/png" sha256: "have" size: 3 } }
  parts { attachment { name: "b.png" media_type: "image/png" sha256: "gone" size: 4 } }
  parts { attachment { name: "c.pdf" media_type: "application/pdf" sha256: "have" size: 5 path: "attachments/1/c.pdf" } } }
`
	agent := claude
	agent.Blob = func(sum []byte) []byte {
		if string(sum) == "have" {
			return []byte("png")
		}
		return nil
	}
	want := model.User(
		model.Image("image/png", []byte("png")),
		model.Text(`(attached file "b.png", image/png, 4 bytes, not in the workspace)`),
		model.Text(`(attached file "c.pdf", application/pdf, 5 bytes, in the workspace at attachments/1/c.pdf)`),
	)
	if diff := cmp.Diff(want, request(t, history, agent, false).Messages[0], cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestDigestTellsRequestsApart(t *testing.T) {
	one := request(t, thought, claude, false)
	again := request(t, thought, claude, false)
	again.Attempt = 7
	other := claude
	other.Tools = []model.ToolDef{{Name: "t", Schema: []byte(`{}`)}}
	sum, tools, err := turn.Digests(one)
	if err != nil {
		t.Fatal(err)
	}
	if sumAgain, _, _ := turn.Digests(again); !bytes.Equal(sum, sumAgain) {
		t.Error("another try of the same request has another digest")
	}
	if sumOther, toolsOther, _ := turn.Digests(request(t, thought, other, false)); bytes.Equal(sum, sumOther) || bytes.Equal(tools, toolsOther) {
		t.Error("another tool set has the same digest")
	}
}
