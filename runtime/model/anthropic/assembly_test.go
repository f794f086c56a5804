package anthropic

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

func assemble(events ...string) (model.Answer, error) {
	var a assembly
	for _, e := range append([]string{`{"type":"message_start","message":{"id":"r"}}`}, events...) {
		if _, err := a.event([]byte(e)); err != nil {
			return model.Answer{}, err
		}
	}
	return a.answer()
}

const end = `{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":3}}`

// block is the events of one block.
func blockEvents(index string, start string, deltas ...string) []string {
	out := []string{`{"type":"content_block_start","index":` + index + `,"content_block":` + start + `}`}
	for _, d := range deltas {
		out = append(out, `{"type":"content_block_delta","index":`+index+`,"delta":`+d+`}`)
	}
	return append(out, `{"type":"content_block_stop","index":`+index+`}`)
}

// What this build does not understand comes back as it went out: order, unknown members, the text of numbers.
func TestBlocksOfEveryTypeKeepTheirBytes(t *testing.T) {
	for _, c := range []struct {
		start  string
		deltas []string
		want   string
		kind   model.Kind
	}{
		{
			`{ "type" : "redacted_thinking","data":"a+/=","x":1.50}`, nil,
			`{"type":"redacted_thinking","data":"a+/=","x":1.50}`, model.KindThinking,
		},
		{
			`{"signature":"","thinking":"","type":"thinking"}`,
			[]string{`{"type":"thinking_delta","thinking":"a"}`, `{"type":"signature_delta","signature":"s\/1"}`, `{"type":"signature_delta","signature":"=="}`},
			`{"signature":"s\/1==","thinking":"a","type":"thinking"}`, model.KindThinking,
		},
		{ // a thinking block whose text is not shown: only the signature comes
			`{"type":"thinking","thinking":""}`,
			[]string{`{"type":"signature_delta","signature":"sig"}`},
			`{"type":"thinking","thinking":"","signature":"sig"}`, model.KindThinking,
		},
		{
			`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{},"caller":{"type":"direct"}}`,
			[]string{`{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"query\": \"<x>\"}"}`},
			`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "<x>"},"caller":{"type":"direct"}}`, model.KindOther,
		},
		{
			`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[ {"encrypted_content":"Eo8=","n":1e2} ]}`, nil,
			`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[ {"encrypted_content":"Eo8=","n":1e2} ]}`, model.KindOther,
		},
		{
			`{"citations":[{"a":1}],"type":"text","text":"pre"}`,
			[]string{`{"type":"text_delta","text":"fix"}`, `{"type":"citations_delta","citation":{"type":"char_location", "cited_text":"<"}}`},
			`{"citations":[{"a":1},{"type":"char_location", "cited_text":"<"}],"type":"text","text":"prefix"}`, model.KindText,
		},
		{
			`{"type":"text","text":"","citations":null}`,
			[]string{`{"type":"citations_delta","citation":{"n":1}}`},
			`{"type":"text","text":"","citations":[{"n":1}]}`, model.KindText,
		},
		{
			`{"type":"tool_use","id":"toolu_1","name":"x","input":{}}`,
			[]string{`{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}`, `{"type":"input_json_delta","partial_json":"\ude00\ud800\"}"}`},
			`{"type":"tool_use","id":"toolu_1","name":"x","input":{"a":"😀\ud800"}}`, model.KindToolCall,
		},
		{
			`{"type":"tool_use","id":"toolu_1","name":"x","input":{"already":true}}`, nil,
			`{"type":"tool_use","id":"toolu_1","name":"x","input":{"already":true}}`, model.KindToolCall,
		},
	} {
		a, err := assemble(append(blockEvents("0", c.start, c.deltas...), end)...)
		if err != nil {
			t.Errorf("%s: %v", c.start, err)
			continue
		}
		if got := string(a.Blocks[0].Raw); got != c.want || a.Blocks[0].Kind != c.kind {
			t.Errorf("kind %d\n%s\nwant\n%s", a.Blocks[0].Kind, got, c.want)
		}
		if a.StopReason != model.StopPaused || a.Usage.Output != 3 {
			t.Errorf("%+v", a)
		}
	}
}

func TestAssemblyRefusesNonsense(t *testing.T) {
	text := `{"type":"text","text":""}`
	for name, events := range map[string][]string{
		"a gap":             append(blockEvents("1", text), end),
		"a block twice":     append(append(blockEvents("0", text), blockEvents("0", text)...), end),
		"delta after stop":  append(blockEvents("0", text), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, end),
		"no stop of block":  append(blockEvents("0", text)[:1], end),
		"no stop reason":    blockEvents("0", text),
		"unknown delta":     append(blockEvents("0", text, `{"type":"delta_of_tomorrow","x":1}`), end),
		"text is a number":  append(blockEvents("0", text, `{"type":"text_delta","text":5}`), end),
		"block is a number": {`{"type":"content_block_start","index":0,"content_block":5}`, end},
		"negative index":    {`{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"x"}}`},
	} {
		if a, err := assemble(events...); err == nil {
			t.Errorf("%s became %+v", name, a)
		}
	}
	var early assembly
	if _, err := early.event([]byte(end)); err == nil {
		t.Error("an end without a start is taken")
	}
}

func FuzzAssembly(f *testing.F) {
	f.Add(strings.Join(append(blockEvents("0", `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"\ud800"}`), end), "\n"))
	f.Add(strings.Join(append(blockEvents("0", `{"type":"tool_use","id":"a","name":"b","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"a\":\"\\ud83d"}`), end), "\n"))
	f.Fuzz(func(t *testing.T, text string) {
		answer, err := assemble(strings.Split(text, "\n")...)
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
