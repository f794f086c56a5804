package turn_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// acceptedByAnthropic holds a request against what the Messages API refuses. Sources: its reference and the
// guides on tool use and extended thinking (docs.anthropic.com), and its own errors:
// "roles must alternate between user and assistant", "first message must use the user role",
// "`tool_use` ids were found without `tool_result` blocks immediately after", "unexpected `tool_use_id` found in
// `tool_result` blocks", "each tool_use must have a single result", "`tool_use` ids must be unique", "text content
// blocks must be non-empty" and "must contain non-whitespace text", "tool_use.id: String should match pattern
// '^[a-zA-Z0-9_-]+$'", "The final block in an assistant message cannot be `thinking`", "`thinking` or
// `redacted_thinking` blocks in the latest assistant message cannot be modified".
func acceptedByAnthropic(r model.Request) error {
	ids := map[string]bool{}
	for i, m := range r.Messages {
		if want := []model.Role{model.RoleUser, model.RoleAssistant}[i%2]; m.Role != want {
			return fmt.Errorf("message %d is the %s's", i, m.Role)
		}
		if len(m.Blocks) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var open []string
		if i > 0 {
			open = askedIn(r.Messages[i-1])
		}
		if err := anthropicMessage(m, open, ids); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(r.Messages) == 0 {
		return fmt.Errorf("no messages")
	}
	return nil
}

func anthropicMessage(m model.Message, open []string, ids map[string]bool) error {
	results := 0
	for j, b := range m.Blocks {
		switch {
		case b.Kind == model.KindText && strings.TrimSpace(b.Text) == "":
			return fmt.Errorf("block %d is an empty text", j)
		case b.Kind == model.KindToolResult:
			if j != results || results >= len(open) || open[results] != b.CallID {
				return fmt.Errorf("block %d is a result of %q where %q are open", j, b.CallID, open)
			}
			results++
			for _, c := range b.Content {
				if c.Kind == model.KindText && strings.TrimSpace(c.Text) == "" {
					return fmt.Errorf("the result of %q is an empty text", b.CallID)
				}
			}
		case b.Kind == model.KindToolCall:
			// Another provider's ids are the client's to replace.
			if malformed := m.Provider == "anthropic" && !idPattern.MatchString(b.CallID); ids[b.CallID] || malformed {
				return fmt.Errorf("call id %q is malformed or not unique", b.CallID)
			}
			ids[b.CallID] = true
			if !json.Valid(b.Args) || b.Args[0] != '{' {
				return fmt.Errorf("the arguments of %q are no object", b.CallID)
			}
		case b.Kind == model.KindThinking && j == len(m.Blocks)-1:
			return fmt.Errorf("the message ends in thinking")
		case b.Kind == model.KindThinking && len(b.Raw) == 0:
			return fmt.Errorf("thinking without its bytes")
		}
		if m.Role == model.RoleUser && (b.Kind == model.KindToolCall || b.Kind == model.KindThinking) {
			return fmt.Errorf("the user calls or thinks")
		}
	}
	if results != len(open) {
		return fmt.Errorf("%d results for %d calls", results, len(open))
	}
	return nil
}

// acceptedByOpenAI holds a request against what Chat Completions refuses. Sources: its reference
// (platform.openai.com/docs/api-reference/chat/create) and its own errors: "An assistant message with 'tool_calls' must
// be followed by tool messages responding to each 'tool_call_id'", "messages with role 'tool' must be a response to a
// preceding message with 'tool_calls'", "Invalid 'messages[n].tool_calls[m].id': string too long. Expected a string with
// maximum length 40", "'name' does not match '^[a-zA-Z0-9_-]+$'", "Invalid value for 'content': expected a string, got null".
func acceptedByOpenAI(r model.Request) error {
	open := map[string]bool{}
	for i, m := range chatMessages(r) {
		switch m.role {
		case "tool":
			if !open[m.callID] {
				return fmt.Errorf("message %d answers %q, which is not open", i, m.callID)
			}
			delete(open, m.callID)
			continue
		case "assistant":
			if m.content == "" && len(m.calls) == 0 {
				return fmt.Errorf("message %d says nothing", i)
			}
		case "user":
			if m.content == "" {
				return fmt.Errorf("message %d is empty", i)
			}
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d comes while %v have no result", i, open)
		}
		for _, call := range m.calls {
			// As above: only ids of its own go out as they are.
			if m.own && len(call.CallID) > 40 || call.CallID == "" || open[call.CallID] || !idPattern.MatchString(call.Tool) {
				return fmt.Errorf("message %d has a malformed call %q of %q", i, call.CallID, call.Tool)
			}
			open[call.CallID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%v have no result", open)
	}
	return nil
}

type chatMessage struct {
	role, content, callID string
	own                   bool
	calls                 []model.Block
}

// chatMessages is the request as Chat Completions has it: a message a result, and the rest of the user's
// blocks after them.
func chatMessages(r model.Request) []chatMessage {
	var all []chatMessage
	for _, m := range r.Messages {
		main := chatMessage{role: string(m.Role), own: m.Provider == "openai"}
		for _, b := range m.Blocks {
			switch b.Kind {
			case model.KindToolResult:
				all = append(all, chatMessage{role: "tool", callID: b.CallID})
			case model.KindToolCall:
				main.calls = append(main.calls, b)
			case model.KindText:
				main.content += b.Text
			case model.KindImage, model.KindOther:
				main.content += "…"
			}
		}
		if main.role == "user" && main.content == "" && len(all) > 0 && all[len(all)-1].role == "tool" {
			continue
		}
		all = append(all, main)
	}
	return all
}

func askedIn(m model.Message) []string {
	var ids []string
	for _, b := range m.Blocks {
		if b.Kind == model.KindToolCall {
			ids = append(ids, b.CallID)
		}
	}
	return ids
}

// accepted holds a request against its provider's rules and the seam's own.
func accepted(r model.Request, agent agentName) error {
	if err := r.Check(); err != nil {
		return fmt.Errorf("the seam refuses: %w", err)
	}
	if agent.provider == "openai" {
		return acceptedByOpenAI(r)
	}
	return acceptedByAnthropic(r)
}

type agentName struct{ provider, model string }
