package model

import (
	"encoding/json"
	"strings"
	"testing"
)

func call(id string) Block {
	return Block{Kind: KindToolCall, CallID: id, Tool: "exec", Args: json.RawMessage(`{}`)}
}

func says(blocks ...Block) Message { return Message{Role: RoleAssistant, Blocks: blocks} }

// letta-ai/letta#3308, earendil-works/pi#4189, openclaw/openclaw#10900: a provider never sees an orphan.
func TestCheckRefusesOrphans(t *testing.T) {
	hello := User(Text("hello"))
	for _, c := range []struct {
		name     string
		messages []Message
		want     string
	}{
		{"plain", []Message{hello}, ""},
		{"call and result", []Message{hello, says(call("a"), call("b")), User(Result("a", false), Result("b", true), Text("and"))}, ""},
		{"paused answer goes on", []Message{hello, says(Text("part"))}, ""},
		{"nothing", nil, "does not begin"},
		{"assistant first", []Message{says(Text("x"))}, "does not begin"},
		{"call at the end", []Message{hello, says(call("a"))}, `call "a" has no result`},
		{"call without result", []Message{hello, says(call("a")), User(Text("x"))}, `call "a" has no result`},
		{"second call without result", []Message{hello, says(call("a"), call("b")), User(Result("a", false))}, `call "b" has no result`},
		{"assistant goes on", []Message{hello, says(call("a")), says(Text("x"))}, `call "a" has no result`},
		{"result without call", []Message{hello, says(Text("x")), User(Result("a", false))}, "not in the place"},
		{"other order", []Message{hello, says(call("a"), call("b")), User(Result("b", false), Result("a", false))}, "not in the place"},
		{"text before results", []Message{hello, says(call("a")), User(Text("x"), Result("a", false))}, "not in the place"},
		{"two results", []Message{hello, says(call("a")), User(Result("a", false), Result("a", false))}, "not in the place"},
		{"late result", []Message{hello, says(call("a")), User(Result("a", false)), User(Result("a", false))}, "not in the place"},
		{"same id", []Message{hello, says(call("a")), User(Result("a", false)), says(call("a")), User(Result("a", false))}, "not unique"},
		{"no id", []Message{hello, says(call("")), User(Result("", false))}, "empty"},
		{"thinking of a user", []Message{User(Block{Kind: KindThinking})}, "kind 2"},
		{"role", []Message{hello, {Role: "system"}}, "unknown role"},
	} {
		err := Request{Model: "m", Messages: c.messages}.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCheckRefusesWhatCannotBeSpliced(t *testing.T) {
	ok := Request{Model: "m", Messages: []Message{User(Text("x"))}}
	for name, spoil := range map[string]func(*Request){
		"no model":     func(r *Request) { r.Model = "" },
		"options list": func(r *Request) { r.Options = json.RawMessage(`[]`) },
		"options half": func(r *Request) { r.Options = json.RawMessage(`{"a":`) },
		"schema":       func(r *Request) { r.Tools = []ToolDef{{Name: "t", Schema: json.RawMessage(`{`)}} },
		"no schema":    func(r *Request) { r.Tools = []ToolDef{{Name: "t"}} },
	} {
		bad := ok
		spoil(&bad)
		if bad.Check() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if err := ok.Check(); err != nil {
		t.Error(err)
	}
}
