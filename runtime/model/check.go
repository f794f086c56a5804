package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Check says whether a request is one that every provider takes: a call has its one result at the start of
// the message after it, in the order of the calls; a result has a call; ids are unique; a user speaks first.
// Every client checks before it sends, the scripted one too: a history with an orphan would be refused for
// ever (letta-ai/letta#3308), and is a bug of ours.
func (r Request) Check() error {
	if r.Model == "" {
		return errors.New("the request names no model")
	}
	if len(r.Messages) == 0 || r.Messages[0].Role != RoleUser {
		return errors.New("the request does not begin with a user's message")
	}
	if len(r.Options) > 0 && !isObject(r.Options) {
		return errors.New("the options are not a JSON object")
	}
	for _, t := range r.Tools {
		if t.Name == "" || !isObject(t.Schema) {
			return fmt.Errorf("tool %q has no name or no schema that is a JSON object", t.Name)
		}
	}
	seen := make(map[string]bool)
	for i, m := range r.Messages {
		var open []string
		if i > 0 {
			open = calls(r.Messages[i-1])
		}
		if err := m.check(open, seen); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if open := calls(r.Messages[len(r.Messages)-1]); len(open) > 0 {
		return fmt.Errorf("call %q has no result", open[0])
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed)
}

// calls are the ids of a message's calls, in order.
func calls(m Message) []string {
	var ids []string
	for _, b := range m.Blocks {
		if b.Kind == KindToolCall {
			ids = append(ids, b.CallID)
		}
	}
	return ids
}

// check checks a message that follows one with the open calls. seen are the calls of all messages so far.
func (m Message) check(open []string, seen map[string]bool) error {
	switch m.Role {
	case RoleUser:
		return m.checkUser(open)
	case RoleAssistant:
		if len(open) > 0 {
			return fmt.Errorf("call %q has no result before it", open[0])
		}
		for _, id := range calls(m) {
			if id == "" || seen[id] {
				return fmt.Errorf("call id %q is empty or not unique", id)
			}
			seen[id] = true
		}
		for _, b := range m.Blocks {
			if b.Kind == KindToolResult || b.Kind == KindImage {
				return errors.New("an assistant's message holds a result or an image")
			}
		}
		return nil
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

func (m Message) checkUser(open []string) error {
	n := 0
	for i, b := range m.Blocks {
		switch b.Kind {
		case KindToolResult:
			if i != n || n >= len(open) || open[n] != b.CallID {
				return fmt.Errorf("result of %q is not in the place of its call", b.CallID)
			}
			n++
		case KindText, KindImage:
		default:
			return fmt.Errorf("a user's message holds a block of kind %d", b.Kind)
		}
	}
	if n < len(open) {
		return fmt.Errorf("call %q has no result", open[n])
	}
	return nil
}
