package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// assembly makes an answer of the events of a stream. A block is the object that its start event brought, with
// the members that deltas fill replaced and all else (order, unknown members, the text of numbers) as it
// came: so it is the block that the API would have sent unstreamed, which is what it takes back.
type assembly struct {
	started bool
	done    bool
	id      string
	stop    string
	usage   model.Usage
	blocks  []*block
}

// block is a content block that is being filled. Strings are kept as the insides of JSON strings.
type block struct {
	members   []rawjson.Member
	kind      string
	strings   map[string][]byte
	citations [][]byte
	input     []byte
	closed    bool
}

// errRefusal: the event is of type error.
var errRefusal = errors.New("the stream brought an error")

type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		ID    string `json:"id"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        json.RawMessage `json:"delta"`
	Usage        usage           `json:"usage"`
}

// usage has totals of the whole message; a member that is not there leaves the last word to an earlier event.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

func (u usage) into(total *model.Usage) {
	for to, from := range map[*int64]*int64{
		&total.Input: u.Input, &total.Output: u.Output, &total.CacheRead: u.CacheRead, &total.CacheWrite: u.CacheWrite,
	} {
		if from != nil {
			*to = *from
		}
	}
}

// event takes one event. The delta has a kind when there is something to show. Events of unknown types are
// passed over, as the API's versioning policy asks; a delta of an unknown type is an error, since the block
// would miss a part of itself.
func (a *assembly) event(data []byte) (model.Delta, error) {
	data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return model.Delta{}, fmt.Errorf("an event is not JSON: %w", err)
	}
	switch e.Type {
	case "error":
		return model.Delta{}, errRefusal
	case "message_start":
		a.started, a.id = true, e.Message.ID
		e.Message.Usage.into(&a.usage)
		return model.Delta{}, nil
	case "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop":
		if !a.started {
			return model.Delta{}, fmt.Errorf("%s came before message_start", e.Type)
		}
	}
	switch e.Type {
	case "content_block_start":
		return a.open(e)
	case "content_block_delta":
		return a.fill(e)
	case "content_block_stop":
		b, err := a.at(e)
		if err == nil {
			b.closed = true
		}
		return model.Delta{}, err
	case "message_delta":
		var d struct {
			StopReason *string `json:"stop_reason"`
		}
		if err := json.Unmarshal(e.Delta, &d); err != nil {
			return model.Delta{}, fmt.Errorf("message_delta: %w", err)
		}
		if d.StopReason != nil {
			a.stop = *d.StopReason
		}
		e.Usage.into(&a.usage)
	case "message_stop":
		a.done = true
	}
	return model.Delta{}, nil
}

func (a *assembly) open(e event) (model.Delta, error) {
	if e.Index != len(a.blocks) {
		return model.Delta{}, fmt.Errorf("block %d started, %d was next", e.Index, len(a.blocks))
	}
	members, err := rawjson.Members(e.ContentBlock)
	if err != nil {
		return model.Delta{}, fmt.Errorf("content_block_start: %w", err)
	}
	var head struct{ Type, Name string }
	if err := json.Unmarshal(e.ContentBlock, &head); err != nil {
		return model.Delta{}, fmt.Errorf("content_block_start: %w", err)
	}
	b := &block{members: members, kind: head.Type, strings: map[string][]byte{}}
	a.blocks = append(a.blocks, b)
	if head.Type == "tool_use" {
		return model.Delta{Block: e.Index, Kind: model.KindToolCall, Tool: head.Name}, nil
	}
	return model.Delta{}, nil
}

// at is the open block that an event is about.
func (a *assembly) at(e event) (*block, error) {
	if e.Index < 0 || e.Index >= len(a.blocks) || a.blocks[e.Index].closed {
		return nil, fmt.Errorf("%s of block %d, which is not open", e.Type, e.Index)
	}
	return a.blocks[e.Index], nil
}

func (a *assembly) fill(e event) (model.Delta, error) {
	b, err := a.at(e)
	if err != nil {
		return model.Delta{}, err
	}
	var d struct {
		Type        string          `json:"type"`
		Text        json.RawMessage `json:"text"`
		Thinking    json.RawMessage `json:"thinking"`
		Signature   json.RawMessage `json:"signature"`
		PartialJSON json.RawMessage `json:"partial_json"`
		Citation    json.RawMessage `json:"citation"`
	}
	if err := json.Unmarshal(e.Delta, &d); err != nil {
		return model.Delta{}, fmt.Errorf("content_block_delta: %w", err)
	}
	shown := model.Delta{Block: e.Index}
	var piece json.RawMessage
	switch d.Type {
	case "text_delta":
		shown.Kind, piece = model.KindText, d.Text
		err = b.add("text", d.Text)
	case "thinking_delta":
		shown.Kind, piece = model.KindThinking, d.Thinking
		err = b.add("thinking", d.Thinking)
	case "signature_delta":
		err = b.add("signature", d.Signature)
	case "input_json_delta":
		if b.kind == "tool_use" {
			shown.Kind, piece = model.KindToolCall, d.PartialJSON
		}
		b.input, err = rawjson.AppendBody(b.input, d.PartialJSON)
	case "citations_delta":
		b.citations = append(b.citations, d.Citation)
	default:
		err = fmt.Errorf("a delta of type %q is not known to this build", d.Type)
	}
	if err != nil || shown.Kind == 0 {
		return model.Delta{}, err
	}
	if shown.Text, err = text(piece); err != nil || shown.Text == "" {
		return model.Delta{}, err
	}
	return shown, nil
}

func (b *block) add(member string, piece json.RawMessage) (err error) {
	if b.strings[member] == nil {
		if b.strings[member], err = rawjson.AppendBody([]byte{}, rawjson.Find(b.members, member)); err != nil {
			return fmt.Errorf("member %s of a block: %w", member, err)
		}
	}
	b.strings[member], err = rawjson.AppendBody(b.strings[member], piece)
	return err
}

func text(raw json.RawMessage) (string, error) {
	body, err := rawjson.AppendBody(nil, raw)
	if err != nil {
		return "", err
	}
	return rawjson.Text(body)
}

// raw is the block, whole.
func (b *block) raw() ([]byte, error) {
	filled := map[string][]byte{}
	for name, body := range b.strings {
		filled[name] = rawjson.Quoted(body)
	}
	if len(b.input) > 0 {
		input, err := rawjson.Inner(b.input)
		if err != nil {
			return nil, fmt.Errorf("input of a %s block: %w", b.kind, err)
		}
		filled["input"] = model.Arguments(input)
	}
	if len(b.citations) > 0 {
		filled["citations"] = b.cited()
	}
	members := make([]rawjson.Member, 0, len(b.members)+len(filled))
	for _, m := range b.members {
		if value, ok := filled[m.Name]; ok {
			m.Value = value
			delete(filled, m.Name)
		}
		members = append(members, m)
	}
	// What the start event did not announce comes last, in a fixed order: same events, same bytes.
	for _, name := range []string{"text", "thinking", "signature", "input", "citations"} {
		if value, ok := filled[name]; ok {
			members = append(members, rawjson.Member{Name: name, Value: value})
		}
	}
	return rawjson.AppendObject(nil, members), nil
}

// cited is the list of citations that the start event brought and deltas went on with.
func (b *block) cited() []byte {
	var first []json.RawMessage
	// A null, or what is not a list, has none.
	_ = json.Unmarshal(rawjson.Find(b.members, "citations"), &first)
	all := make([][]byte, 0, len(first)+len(b.citations))
	for _, c := range first {
		all = append(all, c)
	}
	all = append(all, b.citations...)
	return rawjson.AppendArray(nil, all)
}

var stops = map[string]model.StopReason{
	"end_turn": model.StopEnd, "stop_sequence": model.StopEnd, "tool_use": model.StopTools,
	"max_tokens": model.StopLength, "model_context_window_exceeded": model.StopLength,
	"refusal": model.StopRefused, "pause_turn": model.StopPaused,
}

// answer is the message, once it is done.
func (a *assembly) answer() (model.Answer, error) {
	out := model.Answer{ResponseID: a.id, Usage: a.usage, StopReason: model.StopReason(a.stop)}
	if a.stop == "" {
		return out, fmt.Errorf("the message has no stop reason")
	}
	if s, ok := stops[a.stop]; ok {
		out.StopReason = s
	}
	for i, b := range a.blocks {
		if !b.closed {
			return out, fmt.Errorf("block %d has no end", i)
		}
		raw, err := b.raw()
		if err != nil {
			return out, err
		}
		read, err := model.Decode("anthropic", raw)
		if err != nil {
			return out, err
		}
		out.Blocks = append(out.Blocks, read)
	}
	return out, nil
}
