package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// Decode reads the neutral fields of a kept block, so that it can be shown, run, and sent to another
// provider. A journal is read for ever, so the formats are here and not with the clients: a provider that is
// not configured any more can still be read. A block of an unknown provider or type is KindOther.
func Decode(provider string, raw []byte) (Block, error) {
	format, _, _ := strings.Cut(provider, ":")
	b := Block{Kind: KindOther, Raw: raw}
	var err error
	switch format {
	case "anthropic", "scripted":
		err = decodeMessages(raw, &b)
	case "openai":
		err = decodeChat(raw, &b)
	}
	if err != nil {
		return Block{}, fmt.Errorf("a block of %s: %w", provider, err)
	}
	return b, nil
}

// decodeMessages reads a content block of Anthropic's Messages API.
func decodeMessages(raw []byte, b *Block) error {
	var in struct {
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Thinking string          `json:"thinking"`
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Input    json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	switch in.Type {
	case "text":
		b.Kind, b.Text = KindText, in.Text
	case "thinking":
		b.Kind, b.Text = KindThinking, in.Thinking
	case "redacted_thinking":
		b.Kind = KindThinking
	case "tool_use":
		b.Kind, b.CallID, b.Tool, b.Args = KindToolCall, in.ID, in.Name, Arguments(in.Input)
	}
	return nil
}

// decodeChat reads a piece of an assistant's message of the Chat Completions API: a member of the message as
// an object of its own, or an element of tool_calls.
func decodeChat(raw []byte, b *Block) error {
	var in struct {
		Content          *string `json:"content"`
		Refusal          *string `json:"refusal"`
		ReasoningContent *string `json:"reasoning_content"`
		Reasoning        *string `json:"reasoning"`
		ID               string  `json:"id"`
		Function         *struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	switch {
	case in.Function != nil:
		b.Kind, b.CallID, b.Tool = KindToolCall, in.ID, in.Function.Name
		body, err := rawjson.AppendBody(nil, in.Function.Arguments)
		if err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
		text, err := rawjson.Inner(body)
		if err != nil {
			return fmt.Errorf("arguments: %w", err)
		}
		b.Args = Arguments(text)
	case in.Content != nil:
		b.Kind, b.Text = KindText, *in.Content
	case in.Refusal != nil:
		b.Kind, b.Text = KindText, *in.Refusal
	case in.ReasoningContent != nil:
		b.Kind, b.Text = KindThinking, *in.ReasoningContent
	case in.Reasoning != nil:
		b.Kind, b.Text = KindThinking, *in.Reasoning
	}
	return nil
}

// invalidArguments holds what a model sent as arguments and is not a JSON object. Anthropic's documentation
// of fine-grained tool streaming names this form; providers refuse a history with anything else.
const invalidArguments = "INVALID_JSON"

// Arguments makes a JSON object of what a model sent as a call's arguments: nothing is {}, an object stays
// byte for byte, and anything else is {"INVALID_JSON": text}, which no schema accepts, so that the model is
// told.
func Arguments(text []byte) json.RawMessage {
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) == 0 {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid(trimmed) {
		return json.RawMessage(trimmed)
	}
	// A map of strings always encodes.
	wrapped, _ := json.Marshal(map[string]string{invalidArguments: string(text)})
	return wrapped
}
