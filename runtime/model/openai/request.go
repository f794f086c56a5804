package openai

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
	members := rawjson.Object{}.Str("model", req.Model).Raw("stream", []byte("true")).
		Raw("stream_options", []byte(`{"include_usage":true}`)).Raw("messages", messages)
	if len(req.Tools) > 0 {
		members = members.Raw("tools", tools(req.Tools))
	}
	limit := req.MaxTokens
	if limit <= 0 {
		limit = c.config.MaxTokens
	}
	if limit > 0 {
		members = members.Raw(c.config.MaxTokensMember, strconv.AppendInt(nil, limit, 10))
	}
	// n: other choices would be thrown away.
	whole, err := rawjson.Merge(members, req.Options, "tools", "n", c.config.MaxTokensMember)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return rawjson.AppendObject(nil, whole), nil
}

func tools(defs []model.ToolDef) []byte {
	list := make([][]byte, 0, len(defs))
	for _, t := range defs {
		function := rawjson.Object{}.Str("name", t.Name)
		if t.Description != "" {
			function = function.Str("description", t.Description)
		}
		list = append(list, rawjson.Object{}.Str("type", "function").
			Raw("function", function.Raw("parameters", t.Schema).Bytes()).Bytes())
	}
	return rawjson.AppendArray(nil, list)
}

func (c *Client) messages(req model.Request) ([]byte, error) {
	id := callid.For(c.provider, req.Messages)
	var list [][]byte
	if req.System != "" {
		list = append(list, rawjson.Object{}.Str("role", "system").Str("content", req.System).Bytes())
	}
	said := len(list)
	for _, m := range req.Messages {
		if m.Role == model.RoleUser {
			list = append(list, user(m.Blocks, id)...)
			continue
		}
		if raw := c.assistant(m, req.Model, id); raw != nil {
			list = append(list, raw)
		}
	}
	if len(list) == said {
		return nil, errors.New("no message has any content")
	}
	return rawjson.AppendArray(nil, list), nil
}

// assistant joins the blocks of an answer into one message; nil when nothing is left of it. Members that the server
// itself wrote are spliced in as they are.
func (c *Client) assistant(m model.Message, asked string, id func(string) string) []byte {
	message := rawjson.Object{}.Str("role", "assistant")
	var calls [][]byte
	var text []string
	for _, b := range m.Blocks {
		own := m.Provider == c.provider && b.Raw != nil
		switch {
		case b.Kind == model.KindThinking && (!own || m.Model != asked):
			// Omitted, never altered: openclaw/openclaw#120596.
		case b.Kind == model.KindToolCall && own:
			calls = append(calls, b.Raw)
		case b.Kind == model.KindToolCall:
			function := rawjson.Object{}.Str("name", b.Tool).Str("arguments", string(model.Arguments(b.Args)))
			calls = append(calls, rawjson.Object{}.Str("id", id(b.CallID)).Str("type", "function").
				Raw("function", function.Bytes()).Bytes())
		case own:
			// One of our own blocks is an object of members of the message.
			if whole, err := rawjson.Merge(message, b.Raw); err == nil {
				message = whole
			}
		case b.Kind == model.KindText && b.Text != "":
			text = append(text, b.Text)
		}
	}
	if len(text) > 0 && rawjson.Find(message, "content") == nil {
		message = message.Str("content", strings.Join(text, "\n\n"))
	}
	spoken := rawjson.Find(message, "content") != nil || rawjson.Find(message, "refusal") != nil
	if len(calls) == 0 && !spoken {
		return nil
	}
	if rawjson.Find(message, "content") == nil {
		message = message.Raw("content", []byte("null"))
	}
	if len(calls) > 0 {
		message = message.Raw("tool_calls", rawjson.AppendArray(nil, calls))
	}
	return message.Bytes()
}

// user gives the results as messages of their own, as the API has them, and the rest as a user's message. Results
// hold no images there, so a result's images follow in the user's words.
func user(blocks []model.Block, id func(string) string) [][]byte {
	var list, parts [][]byte
	var plain []string
	images := false
	add := func(b model.Block) {
		switch {
		case b.Kind == model.KindText && b.Text != "":
			plain = append(plain, b.Text)
			parts = append(parts, rawjson.Object{}.Str("type", "text").Str("text", b.Text).Bytes())
		case b.Kind == model.KindImage:
			images = true
			url := "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
			parts = append(parts, rawjson.Object{}.Str("type", "image_url").
				Raw("image_url", rawjson.Object{}.Str("url", url).Bytes()).Bytes())
		}
	}
	for _, b := range blocks {
		if b.Kind != model.KindToolResult {
			add(b)
			continue
		}
		list = append(list, rawjson.Object{}.Str("role", "tool").Str("tool_call_id", id(b.CallID)).
			Str("content", resultText(b)).Bytes())
		for _, part := range b.Content {
			if part.Kind == model.KindImage {
				add(model.Text("Image of the result of call " + id(b.CallID) + ":"))
				add(part)
			}
		}
	}
	switch {
	case images:
		list = append(list, rawjson.Object{}.Str("role", "user").Raw("content", rawjson.AppendArray(nil, parts)).Bytes())
	case len(plain) > 0:
		// A plain string is what every server takes.
		list = append(list, rawjson.Object{}.Str("role", "user").Str("content", strings.Join(plain, "\n\n")).Bytes())
	}
	return list
}

// resultText is a result as text. The API has no mark for a failure, so the text says it.
func resultText(b model.Block) string {
	var parts []string
	if b.IsError {
		parts = append(parts, "The call failed.")
	}
	for _, part := range b.Content {
		if part.Kind == model.KindText && part.Text != "" {
			parts = append(parts, part.Text)
		}
	}
	return strings.Join(parts, "\n")
}
