package anthropic

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/callid"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// body is the request's JSON. Blocks and schemas are spliced into it in their own bytes.
func (c *Client) body(req model.Request) ([]byte, error) {
	if err := req.Check(); err != nil {
		return nil, err
	}
	messages, err := c.messages(req)
	if err != nil {
		return nil, err
	}
	maxTokens := req.MaxTokens
	if maxTokens <= 0 {
		maxTokens = c.config.MaxTokens
	}
	members := rawjson.Object{}.Str("model", req.Model).Raw("max_tokens", strconv.AppendInt(nil, maxTokens, 10)).
		Raw("stream", []byte("true"))
	if req.System != "" {
		members = members.Str("system", req.System)
	}
	if len(req.Tools) > 0 {
		members = members.Raw("tools", tools(req.Tools))
	}
	whole, err := rawjson.Merge(members.Raw("messages", messages), req.Options, "system", "tools")
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return rawjson.AppendObject(nil, whole), nil
}

func tools(defs []model.ToolDef) []byte {
	list := make([][]byte, 0, len(defs))
	for _, t := range defs {
		tool := rawjson.Object{}.Str("name", t.Name)
		if t.Description != "" {
			tool = tool.Str("description", t.Description)
		}
		list = append(list, tool.Raw("input_schema", t.Schema).Bytes())
	}
	return rawjson.AppendArray(nil, list)
}

// messages are the conversation. A message with nothing in it is left out: the API refuses it, and joins the
// neighbours, which are then of one role.
func (c *Client) messages(req model.Request) ([]byte, error) {
	id := callid.For(c.provider, req.Messages)
	var list [][]byte
	for _, m := range req.Messages {
		var content [][]byte
		for _, b := range m.Blocks {
			switch {
			case b.Kind == model.KindText && strings.TrimSpace(b.Text) == "":
				// The API refuses text without a word in it, its own too.
			case b.Kind == model.KindThinking && (m.Provider != c.provider || m.Model != req.Model):
				// Omitted, never altered: openclaw/openclaw#120596.
			case m.Role == model.RoleAssistant && m.Provider == c.provider && b.Raw != nil:
				content = append(content, b.Raw)
			default:
				if raw := convert(b, id); raw != nil {
					content = append(content, raw)
				}
			}
		}
		if len(content) == 0 {
			continue
		}
		list = append(list, rawjson.Object{}.Str("role", string(m.Role)).
			Raw("content", rawjson.AppendArray(nil, content)).Bytes())
	}
	if len(list) == 0 {
		return nil, errors.New("no message has any content")
	}
	return rawjson.AppendArray(nil, list), nil
}

// convert makes a block of the API of neutral fields; nil when there is none for it.
func convert(b model.Block, id func(string) string) []byte {
	switch b.Kind {
	case model.KindText:
		return rawjson.Object{}.Str("type", "text").Str("text", b.Text).Bytes()
	case model.KindImage:
		source := rawjson.Object{}.Str("type", "base64").Str("media_type", b.MediaType).
			Str("data", base64.StdEncoding.EncodeToString(b.Data))
		return rawjson.Object{}.Str("type", "image").Raw("source", source.Bytes()).Bytes()
	case model.KindToolCall:
		return rawjson.Object{}.Str("type", "tool_use").Str("id", id(b.CallID)).Str("name", b.Tool).
			Raw("input", model.Arguments(b.Args)).Bytes()
	case model.KindToolResult:
		result := rawjson.Object{}.Str("type", "tool_result").Str("tool_use_id", id(b.CallID))
		if b.IsError {
			result = result.Raw("is_error", []byte("true"))
		}
		var content [][]byte
		for _, part := range b.Content {
			if part.Kind == model.KindImage || part.Kind == model.KindText && strings.TrimSpace(part.Text) != "" {
				content = append(content, convert(part, id))
			}
		}
		if len(content) > 0 {
			result = result.Raw("content", rawjson.AppendArray(nil, content))
		}
		return result.Bytes()
	}
	return nil
}
