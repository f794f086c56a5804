package turn_test

import (
	"fmt"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

var agents = []agentName{{"anthropic", "m1"}, {"anthropic", "m2"}, {"openai", "g1"}}

func (a agentName) agent() turn.Agent {
	return turn.Agent{Provider: a.provider, Model: a.model, System: "be good"}
}

// ids are what the provider calls its calls: servers that speak OpenAI's format repeat and decorate them.
func (a agentName) ids(fresh string) []string {
	if a.provider == "openai" {
		return []string{fresh, "call_0", "functions.t:0", ""}
	}
	return []string{fresh}
}

// askModel checks what would be sent, and sends it.
func (w *world) askModel(ask turn.AskModel) {
	// Which model answers may change at any time, also in the midst of a turn.
	w.agent = rapid.SampledFrom(agents).Draw(w.t, "agent")
	request, err := turn.Request(w.state, w.agent.agent(), ask.Plain)
	if err != nil {
		w.t.Fatalf("request: %v", err)
	}
	w.check(request, w.agent)
	w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ModelRequested{ModelRequested: &journalv1.ModelRequested{
		Provider: w.agent.provider, Model: w.agent.model, Attempt: ask.Try,
	}}})
	w.facts.ModelRunning = true
}

// check holds a request against the provider's rules, and its bytes against what was said.
func (w *world) check(request model.Request, agent agentName) {
	if err := accepted(request, agent); err != nil {
		w.t.Fatalf("%s would refuse: %v\n%+v", agent.provider, err, request.Messages)
	}
	for _, m := range request.Messages {
		for _, b := range m.Blocks {
			if b.Raw == nil || m.Provider != agent.provider {
				// Bytes go to their own provider only.
				continue
			}
			by, known := w.said[string(b.Raw)]
			if !known {
				w.t.Fatalf("nobody said %q", b.Raw)
			}
			if read, err := model.Decode(agent.provider, b.Raw); b.Kind == model.KindToolCall && (err != nil || read.CallID != b.CallID) {
				w.t.Fatalf("the result of %q would go to %q, %v", b.CallID, b.Raw, err)
			}
			// anthropics/claude-code#63147, openclaw/openclaw#120596
			if b.Kind == model.KindThinking && by != agent {
				w.t.Fatalf("%v is sent the thinking of %v", agent, by)
			}
		}
	}
}

func (w *world) finishModel() {
	if w.maybe("delta", 20) {
		w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: "I th"}}})
	}
	if w.dies("before the answer") {
		return
	}
	w.facts.ModelRunning = false
	switch rapid.IntRange(0, 19).Draw(w.t, "model") {
	case 15, 19:
		w.abort("overloaded", true)
	case 16:
		w.abort("refused", false)
	case 17:
		w.abort("too_long", false)
	default:
		w.answer()
	}
	w.dies("after the answer")
}

func (w *world) abort(reason string, retryable bool) {
	w.append(uuid.Nil, &journalv1.Body{Body: &journalv1.Body_ModelAborted{ModelAborted: &journalv1.ModelAborted{Reason: reason, Retryable: retryable}}})
}

// answer is a batch: the blocks, and an entry a call.
func (w *world) answer() {
	completed := &journalv1.ModelCompleted{Provider: w.agent.provider, Model: w.agent.model, Usage: &journalv1.Usage{Input: 1, Output: 1}}
	var names []string
	var asking []int
	n := rapid.IntRange(0, 5).Draw(w.t, "blocks")
	for i := range n {
		kind := rapid.SampledFrom([]journalv1.BlockKind{
			journalv1.BlockKind_BLOCK_KIND_TEXT, journalv1.BlockKind_BLOCK_KIND_THINKING,
			journalv1.BlockKind_BLOCK_KIND_TOOL_CALL, journalv1.BlockKind_BLOCK_KIND_TOOL_CALL,
		}).Draw(w.t, "kind")
		id := ""
		if kind == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			id = rapid.SampledFrom(w.agent.ids(fmt.Sprintf("call_%d_%d", w.state.Seq, i))).Draw(w.t, "id")
		}
		raw := w.raw(kind, id)
		completed.Blocks = append(completed.Blocks, &journalv1.Block{Kind: kind, Raw: []byte(raw)})
		if kind == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			names, asking = append(names, id), append(asking, i)
		}
	}
	if len(names) == 0 && w.maybe("paused", 10) && w.agent.provider == "anthropic" {
		completed.StopReason = journal.StopPaused
	}
	batch := []*journalv1.Body{{Body: &journalv1.Body_ModelCompleted{ModelCompleted: completed}}}
	for i, id := range w.state.FreshCallIDs(names...) {
		batch = append(batch, &journalv1.Body{Body: &journalv1.Body_ToolCalled{ToolCalled: w.call(id, asking[i])}})
	}
	w.append(uuid.Nil, batch...)
}

func (w *world) call(id string, block int) *journalv1.ToolCalled {
	return &journalv1.ToolCalled{
		CallId: id, Tool: "t", Block: int32(block), ArgsSha256: journal.ArgsSHA256([]byte("{}")),
		Class:  journalv1.EffectClass(rapid.IntRange(1, 4).Draw(w.t, "class")),
		Policy: rapid.SampledFrom([]journalv1.Policy{journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_ASK, journalv1.Policy_POLICY_DENY}).Draw(w.t, "policy"),
	}
}

// raw is a block in the provider's bytes, in forms that a decoder and encoder would not give back.
func (w *world) raw(kind journalv1.BlockKind, id string) string {
	text := rapid.SampledFrom([]string{`hi`, ``, `\u0041\ud83d\ude00`, ` `, `a\u0000b`, `é`}).Draw(w.t, "text")
	args := rapid.SampledFrom([]string{`{"b":1, "a":2}`, `{}`, `{"n":1.0e3}`}).Draw(w.t, "args")
	var raw string
	switch {
	case w.agent.provider == "openai" && kind == journalv1.BlockKind_BLOCK_KIND_TEXT:
		raw = `{"content": "` + text + `"}`
	case w.agent.provider == "openai" && kind == journalv1.BlockKind_BLOCK_KIND_THINKING:
		raw = `{"reasoning_content":"` + text + `"}`
	case w.agent.provider == "openai":
		raw = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"t","arguments":%q}}`, id, args)
	case kind == journalv1.BlockKind_BLOCK_KIND_TEXT:
		raw = `{"type":"text", "text":"` + text + `"}`
	case kind == journalv1.BlockKind_BLOCK_KIND_THINKING:
		raw = fmt.Sprintf(`{"signature":"c2ln+/%d==","thinking":"%s","type":"thinking"}`, w.state.Seq, text)
	default:
		raw = fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"t","input":%s}`, id, args)
	}
	if kind == journalv1.BlockKind_BLOCK_KIND_THINKING && w.agent.provider == "openai" {
		raw = fmt.Sprintf(`{"reasoning_content":"%s", "seq":%d}`, text, w.state.Seq)
	}
	w.said[raw] = w.agent
	return raw
}
