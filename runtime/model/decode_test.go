package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestDecodeReadsEveryFormat(t *testing.T) {
	for _, c := range []struct {
		provider, raw string
		want          Block
	}{
		{"anthropic", `{"type":"text","text":"a\u0000b"}`, Block{Kind: KindText, Text: "a\x00b"}},
		{"anthropic", `{"type":"thinking","thinking":"hm","signature":"c2ln"}`, Block{Kind: KindThinking, Text: "hm"}},
		{"anthropic", `{"type":"redacted_thinking","data":"xx"}`, Block{Kind: KindThinking}},
		{"anthropic", `{"type":"tool_use","id":"toolu_1","name":"exec","input":{"b":1,"a":"\ud800"}}`, Block{
			Kind: KindToolCall, CallID: "toolu_1", Tool: "exec", Args: json.RawMessage(`{"b":1,"a":"\ud800"}`),
		}},
		{"anthropic", `{"type":"web_search_tool_result","content":[]}`, Block{Kind: KindOther}},
		{"openai:local", `{"content":"hi"}`, Block{Kind: KindText, Text: "hi"}},
		{"openai", `{"refusal":"no"}`, Block{Kind: KindText, Text: "no"}},
		{"openai", `{"reasoning_content":"hm"}`, Block{Kind: KindThinking, Text: "hm"}},
		{"openai", `{"id":"c1","type":"function","function":{"name":"exec","arguments":"{\"a\":\"\\ud800\\u0000\"}"}}`, Block{
			Kind: KindToolCall, CallID: "c1", Tool: "exec", Args: json.RawMessage(`{"a":"\ud800\u0000"}`),
		}},
		{"openai", `{"id":"c1","function":{"name":"exec","arguments":"{\"a\":\"\ud800\ud83d\ude00\"}"}}`, Block{
			Kind: KindToolCall, CallID: "c1", Tool: "exec", Args: json.RawMessage(`{"a":"\ud800😀"}`),
		}},
		{"scripted", `{"type":"text","text":"x"}`, Block{Kind: KindText, Text: "x"}},
		{"of another build", `{"type":"text","text":"x"}`, Block{Kind: KindOther}},
	} {
		got, err := Decode(c.provider, []byte(c.raw))
		if err != nil {
			t.Fatalf("%s %s: %v", c.provider, c.raw, err)
		}
		if string(got.Raw) != c.raw {
			t.Errorf("raw of %s became %s", c.raw, got.Raw)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Block{}, "Raw")); d != "" {
			t.Errorf("%s %s: %s", c.provider, c.raw, d)
		}
	}
	if _, err := Decode("anthropic", []byte(`{"type":`)); err == nil {
		t.Error("half a block was read")
	}
}

// Whatever a model sends as arguments, a call has an object, and an object is not touched.
func TestArgumentsAreAlwaysAnObject(t *testing.T) {
	for in, want := range map[string]string{
		"":                   `{}`,
		" \n":                `{}`,
		`{"a" : 1}`:          `{"a" : 1}`,
		`{"a":"\ud800\n"}`:   `{"a":"\ud800\n"}`,
		`{"a":`:              `{"INVALID_JSON":"{\"a\":"}`,
		`[1]`:                `{"INVALID_JSON":"[1]"}`,
		`{"a":1} trailing`:   `{"INVALID_JSON":"{\"a\":1} trailing"}`,
		"\x00":               `{"INVALID_JSON":"\u0000"}`,
		`{"a":1,"a":2,"":0}`: `{"a":1,"a":2,"":0}`,
	} {
		if got := string(Arguments([]byte(in))); got != want {
			t.Errorf("Arguments(%q) = %s, want %s", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(rapid.Byte()).Draw(t, "in")
		got := Arguments(in)
		if !isObject(got) {
			t.Fatalf("Arguments(%q) = %q", in, got)
		}
		if again := Arguments(got); string(again) != string(got) {
			t.Fatalf("Arguments is not stable: %q, then %q", got, again)
		}
	})
}
