package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/modeltest"
)

// dialect is a fake of the Messages API: docs of platform.claude.com, "Streaming messages" and "Errors".
func dialect() modeltest.Dialect {
	return modeltest.Dialect{
		Path: "/v1/messages",
		Key:  func(h http.Header) string { return h.Get("X-Api-Key") },
		New: func(t testing.TB, base string, limits model.Limits, key func() (string, error)) model.Model {
			c, err := New(Config{BaseURL: base, Limits: limits, Key: func(context.Context) (string, error) { return key() }})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Events: events,
		Refusal: func(kind, message string) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"%s"}}`, kind, modeltest.Escape(message))
		},
		Refused: []modeltest.Refusal{
			{Name: "too long", Status: 400, Kind: "invalid_request_error", Message: "prompt is too long: 200001 tokens > 200000 maximum", Want: model.TooLong},
			{Name: "no credit", Status: 400, Kind: "billing_error", Message: "no credit", Want: model.Refused},
		},
		Valid: valid,
	}
}

func frame(kind, rest string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, rest)
}

func events(said modeltest.Spoken) []string {
	out := []string{
		frame("message_start", `,"message":{"id":"resp_1","type":"message","role":"assistant","model":"m-1-20250101","content":[],"stop_reason":null,"usage":{"input_tokens":20,"cache_read_input_tokens":3,"cache_creation_input_tokens":0,"output_tokens":1}}`),
		": a comment\n\n", frame("ping", ""), frame("an_event_of_tomorrow", `,"index":99`),
	}
	index := 0
	block := func(start string, deltas ...string) {
		at := fmt.Sprintf(`,"index":%d`, index)
		out = append(out, frame("content_block_start", at+`,"content_block":`+start))
		for _, d := range deltas {
			out = append(out, frame("content_block_delta", at+`,"delta":`+d))
		}
		out = append(out, frame("content_block_stop", at))
		index++
	}
	deltas := func(kind, member string, pieces []string) (list []string) {
		for _, p := range pieces {
			list = append(list, fmt.Sprintf(`{"type":%q,%q:"%s"}`, kind, member, p))
		}
		return list
	}
	if len(said.Thinking) > 0 {
		block(`{"type":"thinking","thinking":"","signature":""}`, append(deltas("thinking_delta", "thinking", said.Thinking),
			fmt.Sprintf(`{"type":"signature_delta","signature":%q}`, said.Signature))...)
	}
	if len(said.Text) > 0 {
		block(`{"type":"text","text":""}`, deltas("text_delta", "text", said.Text)...)
	}
	stop := "end_turn"
	for _, c := range said.Calls {
		stop = "tool_use"
		var pieces []string
		for _, p := range c.Args {
			pieces = append(pieces, modeltest.Escape(p))
		}
		block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name), deltas("input_json_delta", "partial_json", pieces)...)
	}
	return append(out,
		frame("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":7}`, stop)),
		frame("message_stop", ""))
}

var toolID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// valid is what the API refuses with 400.
func valid(body map[string]json.RawMessage) error {
	var req struct {
		MaxTokens int `json:"max_tokens"`
		Messages  []struct {
			Role    string
			Content []struct {
				Type, Text, Thinking, Signature, ID string
				ToolUseID                           string `json:"tool_use_id"`
				Input                               json.RawMessage
			}
		}
		Tools []struct {
			Name        string
			InputSchema map[string]any `json:"input_schema"`
		}
	}
	whole, _ := json.Marshal(body)
	if err := json.Unmarshal(whole, &req); err != nil {
		return err
	}
	if req.MaxTokens < 1 || len(req.Messages) == 0 || req.Messages[0].Role != "user" {
		return errors.New("max_tokens, messages")
	}
	for _, tool := range req.Tools {
		if tool.InputSchema["type"] != "object" {
			return errors.New("input_schema")
		}
	}
	open := map[string]bool{}
	for _, m := range req.Messages {
		if len(m.Content) == 0 {
			return errors.New("a message without content")
		}
		results := 0
		for _, c := range m.Content {
			switch c.Type {
			case "text":
				if c.Text == "" {
					return errors.New("text content blocks must be non-empty")
				}
			case "thinking":
				if c.Signature == "" || m.Role != "assistant" {
					return errors.New("thinking without a signature")
				}
			case "tool_use":
				var input map[string]any
				if !toolID.MatchString(c.ID) || json.Unmarshal(c.Input, &input) != nil {
					return errors.New("tool_use")
				}
				open[c.ID] = true
			case "tool_result":
				if !open[c.ToolUseID] {
					return errors.New("unexpected tool_use_id")
				}
				delete(open, c.ToolUseID)
				results++
			}
		}
		if m.Role == "user" && len(open) > 0 {
			return errors.New("tool_use ids were found without tool_result blocks")
		}
	}
	return nil
}

func TestClient(t *testing.T) { modeltest.Run(t, dialect()) }
