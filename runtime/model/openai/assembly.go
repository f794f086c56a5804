package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// maxCalls bounds the calls of one answer: a server's index is not trusted.
const maxCalls = 1000

// errRefusal: the chunk holds an error instead of choices.
var errRefusal = errors.New("the stream brought an error")

// texts are the members of a message that come in pieces. The reasoning of servers other than OpenAI has two names.
var texts = []string{"reasoning_content", "reasoning", "content", "refusal"}

// assembly makes an answer of the chunks of a stream. A text is kept as {"<member>": "…"}, a call as an
// element of tool_calls with every member that the server sent (some want a signature of theirs back).
type assembly struct {
	used   map[string]bool
	id     string
	stop   string
	usage  model.Usage
	blocks []*block
	calls  map[int]*block
	last   int
}

// block is a text or a call that is being filled. Strings are kept as the insides of JSON strings.
type block struct {
	member string
	text   []byte

	call    bool
	members []rawjson.Member
	id      string
	name    []byte
	args    []byte
}

// newAssembly knows the calls so far: some servers number the calls of each answer from 0.
func newAssembly(so []model.Message) *assembly {
	a := &assembly{used: map[string]bool{}, calls: map[int]*block{}}
	for _, m := range so {
		for _, b := range m.Blocks {
			if b.Kind == model.KindToolCall {
				a.used[b.CallID] = true
			}
		}
	}
	return a
}

type chunk struct {
	ID      string          `json:"id"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index        int             `json:"index"`
		Delta        json.RawMessage `json:"delta"`
		FinishReason *string         `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// chunk takes one event and gives what there is to show.
func (a *assembly) chunk(data []byte) ([]model.Delta, error) {
	var c chunk
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("an event is not JSON: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return nil, errRefusal
	}
	if c.ID != "" {
		a.id = c.ID
	}
	if u := c.Usage; u != nil {
		a.usage = model.Usage{Input: u.Prompt - u.Details.Cached, Output: u.Completion, CacheRead: u.Details.Cached}
	}
	var shown []model.Delta
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		deltas, err := a.delta(choice.Delta)
		if err != nil {
			return nil, err
		}
		shown = append(shown, deltas...)
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			a.stop = *choice.FinishReason
		}
	}
	return shown, nil
}

func (a *assembly) delta(raw json.RawMessage) ([]model.Delta, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	members, err := rawjson.Members(raw)
	if err != nil {
		return nil, fmt.Errorf("a delta: %w", err)
	}
	var shown []model.Delta
	for _, name := range texts {
		d, err := a.addText(name, rawjson.Find(members, name))
		if err != nil {
			return nil, fmt.Errorf("member %s of a delta: %w", name, err)
		}
		if d.Text != "" {
			shown = append(shown, d)
		}
	}
	var calls []json.RawMessage
	if list := rawjson.Find(members, "tool_calls"); list != nil {
		if err := json.Unmarshal(list, &calls); err != nil {
			return nil, fmt.Errorf("tool_calls of a delta: %w", err)
		}
	}
	for _, call := range calls {
		d, err := a.addCall(call)
		if err != nil {
			return nil, fmt.Errorf("a tool call of a delta: %w", err)
		}
		if d.Text+d.Tool != "" {
			shown = append(shown, d)
		}
	}
	return shown, nil
}

func (a *assembly) addText(member string, raw []byte) (model.Delta, error) {
	piece, err := rawjson.AppendBody(nil, raw)
	if err != nil || len(piece) == 0 {
		return model.Delta{}, err
	}
	at := -1
	for i, b := range a.blocks {
		if b.member == member {
			at = i
		}
	}
	if at < 0 {
		at = len(a.blocks)
		a.blocks = append(a.blocks, &block{member: member})
	}
	a.blocks[at].text = append(a.blocks[at].text, piece...)
	d := model.Delta{Block: at, Kind: model.KindText}
	if member == "reasoning" || member == "reasoning_content" {
		d.Kind = model.KindThinking
	}
	d.Text, err = rawjson.Text(piece)
	return d, err
}

func (a *assembly) addCall(raw json.RawMessage) (model.Delta, error) {
	var d struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      json.RawMessage `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return model.Delta{}, err
	}
	members, err := rawjson.Members(raw)
	if err != nil {
		return model.Delta{}, err
	}
	b, err := a.callAt(d.Index, d.ID)
	if err != nil {
		return model.Delta{}, err
	}
	for _, m := range members {
		if m.Name != "index" && rawjson.Find(b.members, m.Name) == nil {
			b.members = append(b.members, m)
		}
	}
	if d.ID != "" {
		b.id = d.ID
	}
	shown := model.Delta{Block: a.indexOf(b), Kind: model.KindToolCall}
	if b.name == nil {
		if b.name, err = rawjson.AppendBody(nil, d.Function.Name); err != nil {
			return model.Delta{}, err
		}
		if shown.Tool, err = rawjson.Text(b.name); err != nil {
			return model.Delta{}, err
		}
	}
	piece, err := rawjson.AppendBody(nil, d.Function.Arguments)
	if err != nil {
		return model.Delta{}, err
	}
	b.args = append(b.args, piece...)
	shown.Text, err = rawjson.Text(piece)
	return shown, err
}

// callAt is the call that a piece belongs to. A server that leaves the index out sends an id with each new call.
func (a *assembly) callAt(index *int, id string) (*block, error) {
	at := a.last
	switch {
	case index != nil:
		at = *index
	case id != "" && a.calls[at] != nil && a.calls[at].id != id:
		at = len(a.calls)
	}
	if at < 0 || at >= maxCalls {
		return nil, fmt.Errorf("index %d", at)
	}
	a.last = at
	b := a.calls[at]
	if b == nil {
		b = &block{call: true}
		a.calls[at] = b
		a.blocks = append(a.blocks, b)
	}
	return b, nil
}

func (a *assembly) indexOf(b *block) int {
	for i := range a.blocks {
		if a.blocks[i] == b {
			return i
		}
	}
	return 0
}

var stops = map[string]model.StopReason{
	"stop": model.StopEnd, "length": model.StopLength, "content_filter": model.StopRefused,
	"tool_calls": model.StopTools, "function_call": model.StopTools,
}

// answer is the message, once a finish reason has come.
func (a *assembly) answer() (model.Answer, error) {
	if a.stop == "" {
		return model.Answer{}, errors.New("the stream ended before its message")
	}
	out := model.Answer{ResponseID: a.id, Usage: a.usage, StopReason: model.StopReason(a.stop)}
	if s, ok := stops[a.stop]; ok {
		out.StopReason = s
	}
	for _, b := range a.blocks {
		raw, err := a.raw(b)
		if err != nil {
			return model.Answer{}, err
		}
		read, err := model.Decode("openai", raw)
		if err != nil {
			return model.Answer{}, err
		}
		out.Blocks = append(out.Blocks, read)
	}
	// Some servers say stop where calls are to be answered.
	if len(a.calls) > 0 && out.StopReason == model.StopEnd {
		out.StopReason = model.StopTools
	}
	return out, nil
}

func (a *assembly) raw(b *block) ([]byte, error) {
	if !b.call {
		return rawjson.AppendObject(nil, []rawjson.Member{{Name: b.member, Value: rawjson.Quoted(b.text)}}), nil
	}
	if len(b.name) == 0 {
		return nil, errors.New("a tool call has no name")
	}
	// An id is one that no call of the conversation has: results are told apart by it.
	if b.id == "" || a.used[b.id] {
		b.id = "call_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	a.used[b.id] = true
	args, err := rawjson.Inner(b.args)
	if err != nil {
		return nil, fmt.Errorf("arguments of a tool call: %w", err)
	}
	text := rawjson.Quoted(b.args)
	if object := model.Arguments(args); !bytes.Equal(object, bytes.TrimSpace(args)) {
		// Servers refuse a history whose arguments they cannot read.
		text = rawjson.AppendString(nil, string(object))
	}
	members := []rawjson.Member{
		{Name: "id", Value: rawjson.AppendString(nil, b.id)},
		{Name: "type", Value: []byte(`"function"`)},
		{Name: "function", Value: rawjson.AppendObject(nil, []rawjson.Member{
			{Name: "name", Value: rawjson.Quoted(b.name)}, {Name: "arguments", Value: text},
		})},
	}
	for _, m := range b.members {
		if rawjson.Find(members, m.Name) == nil {
			members = append(members, m)
		}
	}
	return rawjson.AppendObject(nil, members), nil
}
