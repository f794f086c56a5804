// Package scripted is a model without a network or a key: it answers from a script. Demos and tests use it.
//
// A script has one answer a line, in plain words or as JSON:
//
//	# what is after # is not read
//	wait: 2s                       before the next answer
//	fail: overloaded 1s            the first try gets this error instead, with a Retry-After
//	think: first I look            thinking that goes with the next answer
//	run: ls -l                     a call of the tool exec
//	+ read: notes.txt              another call in the same answer
//	call: any_tool {"a": 1}        a call of any tool
//	say: I saw {{result}}          the end of the turn; {{result}} is the last result, {{input}} the last input
//	ask: shall I go on?            the same, with a question: the next input is the person's answer
//	stall: and then                text, then silence until the caller goes
//	{"text":"hi","calls":[{"tool":"exec","args":{"command":"ls"}}],"delay_ms":100,"every_ms":10,"errors":[{"kind":"server"}]}
//
// Which answer comes next is a function of the request alone: how many answers the conversation holds, and
// which try it is. So another replica goes on with the same script where a killed one stopped.
// A conversation that was compacted holds fewer answers, and its script goes back as many lines.
//
// Without a script the last input is the script, and answers are counted from it on: a person types "run: ls".
package scripted

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// Config is what the model needs.
type Config struct {
	// Script is the text of a script; "" takes the last input.
	Script string
	// Verbs are the plain lines that call tools; nil for DefaultVerbs.
	Verbs map[string]Verb
	// Sleep waits, or returns context.Cause when ctx ends first; nil is the real clock.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client is a model.Model.
type Client struct {
	config Config
	steps  []step
}

var _ model.Model = (*Client)(nil)

// maxScript bounds a script's file, in bytes.
const maxScript = 4 << 20

// Load reads the script of a file.
func Load(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("script of the model: %w", err)
	}
	if info.Size() > maxScript {
		return "", fmt.Errorf("script of the model: %s has %d bytes, at most %d are read", path, info.Size(), maxScript)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("script of the model: %w", err)
	}
	return string(text), nil
}

// New reads the script.
func New(config Config) (*Client, error) {
	if config.Verbs == nil {
		config.Verbs = DefaultVerbs()
	}
	if config.Sleep == nil {
		config.Sleep = sleep
	}
	steps, err := parse(config.Script, config.Verbs, false)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(config.Script) != "" && len(steps) == 0 {
		return nil, errors.New("the script of the model has no answer")
	}
	return &Client{config: config, steps: steps}, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const provider = "scripted"

// Provider is "scripted".
func (c *Client) Provider() string { return provider }

// Ask is Model's.
func (c *Client) Ask(ctx context.Context, req model.Request, onDelta func(model.Delta) error) (model.Answer, error) {
	if err := req.Check(); err != nil {
		return model.Answer{}, &model.Error{Kind: model.Refused, Provider: provider, Message: err.Error()}
	}
	s, err := c.step(req)
	if err != nil {
		return model.Answer{}, err
	}
	if err := c.wait(ctx, s.DelayMS); err != nil {
		return model.Answer{}, err
	}
	if n := max(req.Attempt, 1); n <= len(s.Errors) {
		f := s.Errors[n-1]
		return model.Answer{}, &model.Error{
			Kind: f.Kind, Provider: provider, Message: f.Message,
			RetryAfter: time.Duration(f.RetryAfterMS) * time.Millisecond,
		}
	}
	answer, err := build(s, req)
	if err != nil {
		return model.Answer{}, err
	}
	return answer, c.tell(ctx, s, answer, onDelta)
}

// step is the answer that the conversation has come to.
func (c *Client) step(req model.Request) (step, error) {
	if len(c.steps) > 0 {
		n := answers(req.Messages)
		if n >= len(c.steps) {
			return step{}, &model.Error{
				Kind: model.Refused, Provider: provider,
				Message: fmt.Sprintf("the script has %d answers, and the conversation has had them all", len(c.steps)),
			}
		}
		return c.steps[n], nil
	}
	input, at := lastInput(req.Messages)
	// Lines of an input that are no lines of a script are a person's words.
	steps, err := parse(input, c.config.Verbs, true)
	if err != nil {
		return step{}, err
	}
	n := answers(req.Messages[at:])
	switch {
	case n < len(steps):
		return steps[n], nil
	case len(steps) == 0 && n == 0:
		return step{Text: "You said: " + input}, nil
	}
	return step{Text: "done"}, nil
}

func answers(messages []model.Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == model.RoleAssistant {
			n++
		}
	}
	return n
}

// lastInput is what a person said last, and where.
func lastInput(messages []model.Message) (string, int) {
	for i, m := range slices.Backward(messages) {
		if m.Role != model.RoleUser {
			continue
		}
		if text := texts(m.Blocks); text != "" {
			return text, i
		}
	}
	return "", 0
}

// lastResult is the text of the last result.
func lastResult(messages []model.Message) string {
	for _, m := range slices.Backward(messages) {
		for _, b := range slices.Backward(m.Blocks) {
			if b.Kind == model.KindToolResult {
				return texts(b.Content)
			}
		}
	}
	return ""
}

func texts(blocks []model.Block) string {
	var all []string
	for _, b := range blocks {
		if b.Kind == model.KindText && b.Text != "" {
			all = append(all, b.Text)
		}
	}
	return strings.Join(all, "\n")
}

// build makes the answer. Ids come from the conversation, so that a repeated request gets the same and two
// requests of a session never do.
func build(s step, req model.Request) (model.Answer, error) {
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(req.Messages); err != nil {
		return model.Answer{}, fmt.Errorf("digest of the conversation: %w", err)
	}
	id := fmt.Sprintf("%x", hash.Sum(nil)[:8])
	answer := model.Answer{
		StopReason: s.Stop, ResponseID: "scripted_" + id, Provider: provider, Model: req.Model,
	}
	input, _ := lastInput(req.Messages)
	text := strings.NewReplacer("{{result}}", lastResult(req.Messages), "{{input}}", input).Replace(s.Text)
	var raws [][]byte
	if s.Thinking != "" {
		raws = append(raws, rawjson.Object{}.Str("type", "thinking").Str("thinking", s.Thinking).Bytes())
	}
	if text != "" {
		raws = append(raws, rawjson.Object{}.Str("type", "text").Str("text", text).Bytes())
	}
	for i, c := range s.Calls {
		raws = append(raws, rawjson.Object{}.Str("type", "tool_use").Str("id", fmt.Sprintf("call_%s_%d", id, i)).
			Str("name", c.Tool).Raw("input", model.Arguments(c.Args)).Bytes())
	}
	output := 0
	for _, raw := range raws {
		b, err := model.Decode(provider, raw)
		if err != nil {
			return model.Answer{}, err
		}
		answer.Blocks = append(answer.Blocks, b)
		output += len(raw)
	}
	switch {
	case answer.StopReason != "":
	case len(s.Calls) > 0:
		answer.StopReason = model.StopTools
	default:
		answer.StopReason = model.StopEnd
	}
	// About four bytes a token, as a real model would count.
	answer.Usage = model.Usage{Input: int64(size(req)) / 4, Output: int64(output) / 4}
	if s.Usage != nil {
		answer.Usage = *s.Usage
	}
	return answer, nil
}

func size(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			n += len(b.Text) + len(b.Args) + len(texts(b.Content))
		}
	}
	return n
}

// tell shows the answer piece by piece, a word a piece.
func (c *Client) tell(ctx context.Context, s step, answer model.Answer, onDelta func(model.Delta) error) error {
	for i, b := range answer.Blocks {
		pieces := []model.Delta{{Block: i, Kind: b.Kind, Tool: b.Tool, Text: string(b.Args)}}
		if b.Kind != model.KindToolCall {
			pieces = nil
			for word := range strings.SplitAfterSeq(b.Text, " ") {
				pieces = append(pieces, model.Delta{Block: i, Kind: b.Kind, Text: word})
			}
		}
		for _, d := range pieces {
			if err := c.wait(ctx, s.EveryMS); err != nil {
				return err
			}
			if onDelta == nil {
				continue
			}
			if err := onDelta(d); err != nil {
				return err
			}
		}
		if s.Stall && b.Kind == model.KindText {
			<-ctx.Done()
			return ended(ctx)
		}
	}
	if s.Stall {
		<-ctx.Done()
	}
	return ended(ctx)
}

func (c *Client) wait(ctx context.Context, ms int64) error {
	if ms > 0 {
		// It ends early only with the context.
		_ = c.config.Sleep(ctx, time.Duration(ms)*time.Millisecond)
	}
	return ended(ctx)
}

// ended is what a provider's client returns at the end of the caller's context.
func ended(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e := &model.Error{Kind: model.Timeout, Provider: provider, Message: "the deadline of the call came"}
		return e.Because(context.Cause(ctx))
	}
	return fmt.Errorf("model call to %s: %w", provider, context.Cause(ctx))
}
