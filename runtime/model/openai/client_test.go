package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/modeltest"
)

// dialect is a fake of the Chat Completions API: the API reference's "Streaming" and the guide "Error codes".
func dialect() modeltest.Dialect {
	return modeltest.Dialect{
		Path: "/chat/completions",
		Key:  func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		New: func(t testing.TB, base string, limits model.Limits, key func() (string, error)) model.Model {
			c, err := New(Config{BaseURL: base, Limits: limits, Key: func(context.Context) (string, error) { return key() }})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Events: func(said modeltest.Spoken) []string { return append(chunks(said), "data: [DONE]\n\n") },
		Refusal: func(kind, message string) string {
			return fmt.Sprintf(`{"error":{"message":"%s","type":%q,"param":null,"code":null}}`, modeltest.Escape(message), kind)
		},
		Refused: []modeltest.Refusal{
			{Name: "too long", Status: 400, Kind: "invalid_request_error", Message: "This model's maximum context length is 128000 tokens.", Want: model.TooLong},
			{Name: "no credit", Status: 429, Kind: "insufficient_quota", Message: "You exceeded your current quota", Want: model.Refused},
		},
		Valid: valid,
	}
}

func frame(delta, rest string) string {
	return fmt.Sprintf("data: {\"id\":\"resp_1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s%s}]}\n\n", delta, rest)
}

func chunks(said modeltest.Spoken) []string {
	out := []string{": a comment\n\n", frame(`{"role":"assistant","content":""}`, `,"finish_reason":null`)}
	for _, p := range said.Thinking {
		out = append(out, frame(fmt.Sprintf(`{"reasoning_content":"%s"}`, p), ""))
	}
	for _, p := range said.Text {
		out = append(out, frame(fmt.Sprintf(`{"content":"%s"}`, p), ""))
	}
	stop := "stop"
	for i, c := range said.Calls {
		stop = "tool_calls"
		out = append(out, frame(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.ID, c.Name), ""))
		for _, p := range c.Args {
			out = append(out, frame(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":"%s"}}]}`, i, modeltest.Escape(p)), ""))
		}
	}
	return append(out, frame(`{}`, fmt.Sprintf(`,"finish_reason":%q`, stop)),
		"data: {\"id\":\"resp_1\",\"choices\":[],\"usage\":{\"prompt_tokens\":23,\"completion_tokens\":7,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\n")
}

// valid is what the API refuses with 400.
func valid(body map[string]json.RawMessage) error {
	var req struct {
		Messages []struct {
			Role       string
			Content    json.RawMessage
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Type     string
			Function struct {
				Name       string
				Parameters map[string]any
			}
		}
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	whole, _ := json.Marshal(body)
	if err := json.Unmarshal(whole, &req); err != nil {
		return err
	}
	if !req.StreamOptions.IncludeUsage || len(req.Messages) == 0 {
		return errors.New("stream_options, messages")
	}
	for _, tool := range req.Tools {
		if tool.Type != "function" || tool.Function.Name == "" || tool.Function.Parameters["type"] != "object" {
			return errors.New("tools")
		}
	}
	var open []string
	for _, m := range req.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.ToolCallID {
				return errors.New("a tool message does not answer a call")
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return errors.New("tool_calls must be followed by tool messages")
		}
		if m.Role != "assistant" && (len(m.Content) == 0 || string(m.Content) == "null") {
			return fmt.Errorf("a message of %s without content", m.Role)
		}
		if m.Role == "assistant" && len(m.ToolCalls) == 0 && string(m.Content) == "null" {
			return errors.New("an assistant's message without content or calls")
		}
		for _, c := range m.ToolCalls {
			var args map[string]any
			if c.ID == "" || len(c.ID) > 40 || c.Type != "function" || json.Unmarshal([]byte(c.Function.Arguments), &args) != nil {
				return errors.New("tool_calls")
			}
			open = append(open, c.ID)
		}
	}
	return nil
}

func TestClient(t *testing.T) { modeltest.Run(t, dialect()) }

func assemble(t *testing.T, so []model.Message, deltas ...string) (model.Answer, error) {
	t.Helper()
	a := newAssembly(so)
	for i, d := range deltas {
		rest := `}]}`
		if i == len(deltas)-1 {
			rest = `,"finish_reason":"stop"}]}`
		}
		if _, err := a.chunk([]byte(`{"choices":[{"index":0,"delta":` + d + rest)); err != nil {
			return model.Answer{}, err
		}
	}
	return a.answer()
}

// Servers that come near the API: no index, no ids, the same ids in each answer, whole calls at once, "stop" with calls,
// members of their own that they want back.
func TestServersThatComeNear(t *testing.T) {
	before := []model.Message{{Role: model.RoleAssistant, Blocks: []model.Block{{Kind: model.KindToolCall, CallID: "call_0"}}}}
	a, err := assemble(t, before,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"one","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s<1>"}}}]}`,
		`{"tool_calls":[{"id":"call_9","type":"function","function":{"name":"two","arguments":"{\"a\""}}]}`,
		`{"tool_calls":[{"function":{"arguments":":1}"}}]}`,
		`{"tool_calls":[{"index":2,"id":"","function":{"name":"three","arguments":null}}]}`,
	)
	if err != nil || len(a.Blocks) != 3 || a.StopReason != model.StopTools {
		t.Fatalf("%+v, %v", a, err)
	}
	if id := a.Blocks[0].CallID; id == "call_0" || id == "" {
		t.Errorf("the first call is %q again", id)
	}
	if !strings.Contains(string(a.Blocks[0].Raw), `"extra_content":{"google":{"thought_signature":"s<1>"}}`) {
		t.Errorf("a member is lost: %s", a.Blocks[0].Raw)
	}
	if b := a.Blocks[1]; b.CallID != "call_9" || b.Tool != "two" || string(b.Args) != `{"a":1}` {
		t.Errorf("%+v", b)
	}
	if b := a.Blocks[2]; b.CallID == "" || b.Tool != "three" || string(b.Args) != `{}` {
		t.Errorf("%+v", b)
	}
}

func TestAssemblyRefusesNonsense(t *testing.T) {
	for _, d := range []string{
		`[]`, `17`, `{"content":5}`, `{"tool_calls":{}}`, `{"tool_calls":[{"index":-1,"function":{"name":"x"}}]}`,
		`{"tool_calls":[{"index":99999999,"function":{"name":"x"}}]}`, `{"tool_calls":[{"index":0,"id":"a"}]}`,
		`{"tool_calls":[{"index":0,"function":{"name":"x","arguments":{}}}]}`, `{"tool_calls":[7]}`,
	} {
		if a, err := assemble(t, nil, d); err == nil {
			t.Errorf("%s became %+v", d, a)
		}
	}
}

// A server that closes without [DONE] is believed once a finish reason has come, and not before.
func TestStreamWithoutDone(t *testing.T) {
	d := dialect()
	all := chunks(modeltest.Spoken{Text: []string{"hi"}})
	s := modeltest.NewServer(t, d, modeltest.Stream(all, nil), modeltest.Stream(all[:len(all)-2], nil))
	m := d.New(t, s.URL, model.Limits{}, func() (string, error) { return modeltest.Key, nil })
	req := model.Request{Model: "m", Messages: []model.Message{model.User(model.Text("x"))}}
	if a, err := m.Ask(t.Context(), req, nil); err != nil || a.Blocks[0].Text != "hi" || a.Usage.Output != 7 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := m.Ask(t.Context(), req, nil); err == nil {
		t.Error("half an answer counts")
	}
}

func FuzzAssembly(f *testing.F) {
	for _, c := range chunks(modeltest.Spoken{Thinking: []string{"a"}, Text: []string{`\ud800`}, Calls: []modeltest.SpokenCall{{ID: "a", Name: "b", Args: []string{"{}"}}}}) {
		f.Add([]byte(strings.TrimPrefix(c, "data: ")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newAssembly(nil)
		for range 2 {
			if _, err := a.chunk(data); err != nil {
				return
			}
		}
		answer, err := a.answer()
		if err != nil {
			return
		}
		for _, b := range answer.Blocks {
			if !json.Valid(b.Raw) {
				t.Fatalf("raw %s", b.Raw)
			}
		}
	})
}
