package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/internal/rawjson"
)

// step is one answer of a script, and what happens before it.
type step struct {
	Thinking string `json:"thinking"`
	Text     string `json:"text"`
	Calls    []call `json:"calls"`
	// Stop is the reason; "" for what follows from the calls.
	Stop model.StopReason `json:"stop"`
	// DelayMS goes before the answer, EveryMS before each piece of it.
	DelayMS int64 `json:"delay_ms"`
	EveryMS int64 `json:"every_ms"`
	// Errors are what the first tries get instead, in order.
	Errors []failure `json:"errors"`
	// Stall is silence after the text, until the caller goes.
	Stall bool         `json:"stall"`
	Usage *model.Usage `json:"usage"`
}

type call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

type failure struct {
	Kind         model.ErrorKind `json:"kind"`
	Message      string          `json:"message"`
	RetryAfterMS int64           `json:"retry_after_ms"`
}

var kinds = []model.ErrorKind{
	model.Overloaded, model.RateLimited, model.Refused, model.BrokenStream,
	model.Timeout, model.Auth, model.TooLong, model.Server,
}

// Verb is a tool that a plain line calls: the rest of the line is the value of one argument.
type Verb struct{ Tool, Argument string }

// DefaultVerbs call the runtime's own tools.
func DefaultVerbs() map[string]Verb {
	return map[string]Verb{
		"run":  {Tool: "exec", Argument: "command"},
		"read": {Tool: "read", Argument: "path"},
		"list": {Tool: "list", Argument: "path"},
		"grep": {Tool: "grep", Argument: "pattern"},
		"glob": {Tool: "glob", Argument: "pattern"},
	}
}

// parser reads a script line by line.
type parser struct {
	verbs map[string]Verb
	// lenient passes over lines that are no lines of a script.
	lenient bool
	steps   []step
	// next is what the lines before an answer have said about it.
	next step
}

func parse(text string, verbs map[string]Verb, lenient bool) ([]step, error) {
	p := parser{verbs: verbs, lenient: lenient}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil && !lenient {
			return nil, fmt.Errorf("line %d of the script: %w", i+1, err)
		}
	}
	return p.steps, nil
}

func (p *parser) line(line string) error {
	if line[0] == '{' {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var s step
		if err := d.Decode(&s); err != nil {
			return err
		}
		if err := s.check(); err != nil {
			return err
		}
		p.steps = append(p.steps, s)
		return nil
	}
	rest, more := strings.CutPrefix(line, "+ ")
	verb, value, ok := strings.Cut(rest, ":")
	if !ok {
		return fmt.Errorf("%q is not `verb: …`", line)
	}
	value = strings.TrimSpace(value)
	if more && len(p.steps) > 0 {
		return p.add(&p.steps[len(p.steps)-1], verb, value)
	}
	s := p.next
	if answered, err := p.before(&s, verb, value); err != nil || !answered {
		if err == nil {
			p.next = s
		}
		return err
	}
	if err := p.add(&s, verb, value); err != nil {
		return err
	}
	p.next = step{}
	p.steps = append(p.steps, s)
	return nil
}

// before takes the verbs that speak of the answer that follows; true for a verb that is an answer.
func (p *parser) before(s *step, verb, value string) (bool, error) {
	switch verb {
	case "think":
		s.Thinking = value
	case "wait", "every":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return false, fmt.Errorf("%s: %q is not a duration such as 500ms", verb, value)
		}
		if verb == "wait" {
			s.DelayMS = d.Milliseconds()
		} else {
			s.EveryMS = d.Milliseconds()
		}
	case "fail":
		kind, after, _ := strings.Cut(value, " ")
		f := failure{Kind: model.ErrorKind(kind), Message: "as the script says"}
		if after != "" {
			d, err := time.ParseDuration(after)
			if err != nil {
				return false, fmt.Errorf("fail: %q is not a duration", after)
			}
			f.RetryAfterMS = d.Milliseconds()
		}
		s.Errors = append(slices.Clone(s.Errors), f)
		return false, s.check()
	default:
		return true, nil
	}
	return false, nil
}

func (p *parser) add(s *step, verb, value string) error {
	switch verb {
	case "say", "ask":
		if s.Text != "" {
			s.Text += "\n"
		}
		s.Text += value
		return nil
	case "stall":
		s.Text, s.Stall = value, true
		return nil
	case "call":
		tool, args, _ := strings.Cut(value, " ")
		s.Calls = append(s.Calls, call{Tool: tool, Args: json.RawMessage(strings.TrimSpace(args))})
		return s.check()
	}
	v, ok := p.verbs[verb]
	if !ok {
		return fmt.Errorf("unknown verb %q", verb)
	}
	s.Calls = append(s.Calls, call{Tool: v.Tool, Args: rawjson.Object{}.Str(v.Argument, value).Bytes()})
	return nil
}

func (s *step) check() error {
	for i, c := range s.Calls {
		if c.Tool == "" {
			return fmt.Errorf("call %d names no tool", i+1)
		}
		if len(bytes.TrimSpace(c.Args)) > 0 && !json.Valid(c.Args) {
			return fmt.Errorf("arguments of %s are not JSON: %s", c.Tool, c.Args)
		}
	}
	for _, f := range s.Errors {
		if !slices.Contains(kinds, f.Kind) {
			return fmt.Errorf("%q is not a kind of failure; kinds are %v", f.Kind, kinds)
		}
	}
	return nil
}
