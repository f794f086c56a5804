package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

func create(t *testing.T, script string) *Client {
	t.Helper()
	c, err := New(Config{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(input string) model.Request {
	return model.Request{Model: "m", Messages: []model.Message{model.User(model.Text(input))}, Attempt: 1}
}

// follow adds an answer, and results for its calls.
func follow(req model.Request, a model.Answer, result string) model.Request {
	req.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], a.Message())
	var results []model.Block
	for _, b := range a.Blocks {
		if b.Kind == model.KindToolCall {
			results = append(results, model.Result(b.CallID, false, model.Text(result)))
		}
	}
	if len(results) > 0 {
		req.Messages = append(req.Messages, model.User(results...))
	}
	return req
}

func show(a model.Answer) string {
	var out []string
	for _, b := range a.Blocks {
		switch b.Kind {
		case model.KindToolCall:
			out = append(out, b.Tool+string(b.Args))
		case model.KindThinking:
			out = append(out, "("+b.Text+")")
		default:
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, " | ") + " " + string(a.StopReason)
}

const script = `
# a comment
think: first I look
run: ls "a b" <c>
+ read: notes.txt
call: any_tool {"n": 1.0, "s":"\ud800"}

{"text":"mid","calls":[{"tool":"exec","args":{"command":"true"}}]}
say: I saw {{result}}
+ say: and you said {{input}}
`

var spoken = []string{
	`(first I look) | exec{"command":"ls \"a b\" <c>"} | read{"path":"notes.txt"} tools`,
	`any_tool{"n": 1.0, "s":"\ud800"} tools`,
	`mid | exec{"command":"true"} tools`,
	"I saw res\nand you said go end",
}

// Every ask is answered by a client that was made for it: what comes next is in the request.
func TestAnotherReplicaGoesOn(t *testing.T) {
	req := start("go")
	for i, want := range spoken {
		a, err := create(t, script).Ask(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(a); got != want {
			t.Errorf("answer %d: %s, want %s", i, got, want)
		}
		again, err := create(t, script).Ask(t.Context(), req, nil)
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Errorf("the same request got %+v, then %+v, %v", a, again, err)
		}
		req = follow(req, a, "res")
	}
	req.Messages = append(req.Messages, model.User(model.Text("more")))
	_, err := create(t, script).Ask(t.Context(), req, nil)
	if kind, _ := model.KindOf(err); kind != model.Refused {
		t.Errorf("after its end the script said %v", err)
	}
}

func TestInputIsTheScript(t *testing.T) {
	req := start("please\nrun: one\nrun: two")
	c := create(t, "")
	for _, want := range []string{`exec{"command":"one"} tools`, `exec{"command":"two"} tools`, "done end"} {
		a, err := c.Ask(t.Context(), req, nil)
		if err != nil || show(a) != want {
			t.Fatalf("%s, %v, want %s", show(a), err, want)
		}
		req = follow(req, a, "x")
	}
	for input, want := range map[string]string{"say: hi": "hi end", "hello": "You said: hello end"} {
		next := req
		next.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], model.User(model.Text(input)))
		a, err := c.Ask(t.Context(), next, nil)
		if err != nil || show(a) != want {
			t.Errorf("%q: %s, %v", input, show(a), err)
		}
	}
}

// A plain line calls a tool that there is, with arguments that it takes.
func TestDefaultVerbsAreToolsOfTheRuntime(t *testing.T) {
	schemas := map[string]json.RawMessage{}
	for _, tool := range tools.Builtin() {
		schemas[tool.Name] = tool.Schema
	}
	for verb, v := range DefaultVerbs() {
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(schemas[v.Tool], &schema); err != nil || schema.Properties[v.Argument] == nil {
			t.Errorf("%s: tool %s has no argument %s (%v)", verb, v.Tool, v.Argument, err)
		}
	}
}

func TestCallIdsAreNeverUsedTwice(t *testing.T) {
	seen := map[string]bool{}
	req := start("go")
	c := create(t, strings.Repeat("run: same\n+ run: same\n", 20))
	for range 20 {
		a, err := c.Ask(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range a.Blocks {
			if seen[b.CallID] || b.CallID == "" {
				t.Errorf("call id %q again", b.CallID)
			}
			seen[b.CallID] = true
		}
		req = follow(req, a, "")
	}
}

func TestFailuresGoByAttempt(t *testing.T) {
	c := create(t, "fail: overloaded 2s\nfail: broken_stream\nsay: there")
	req := start("go")
	for attempt, want := range []model.ErrorKind{model.Overloaded, model.BrokenStream, ""} {
		req.Attempt = attempt + 1
		a, err := c.Ask(t.Context(), req, nil)
		kind, _ := model.KindOf(err)
		if kind != want || want == "" && show(a) != "there end" {
			t.Errorf("attempt %d: %+v, %v", req.Attempt, a, err)
		}
		var e *model.Error
		if want == model.Overloaded && (!errors.As(err, &e) || e.RetryAfter != 2*time.Second) {
			t.Errorf("%#v", err)
		}
	}
}

func TestTimeGoesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		a, err := create(t, "wait: 1m\nevery: 10s\nsay: one two").Ask(t.Context(), start("x"), func(d model.Delta) error {
			at = append(at, time.Since(begin))
			return nil
		})
		if err != nil || show(a) != "one two end" || fmt.Sprint(at) != "[1m10s 1m20s]" {
			t.Errorf("%+v, %v, %v", a, err, at)
		}
	})
}

func TestStallEndsWithTheCaller(t *testing.T) {
	c := create(t, "stall: and then")
	lost := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	text := ""
	_, err := c.Ask(ctx, start("x"), func(d model.Delta) error {
		if text += d.Text; text == "and then" {
			cancel(lost)
		}
		return nil
	})
	if _, is := model.KindOf(err); is || !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := c.Ask(ctx, start("x"), nil)
		if kind, _ := model.KindOf(err); kind != model.Timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	full := errors.New("full")
	if _, err := c.Ask(t.Context(), start("x"), func(model.Delta) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func TestBadScriptsAreRefusedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"say: a\nshout: b":         "line 2",
		"no verb":                  "line 1",
		`{"txt":"x"}`:              "txt",
		`{"text":`:                 "line 1",
		"wait: soon\nsay: x":       "duration",
		"fail: sometimes\nsay: x":  "not a kind",
		"fail: server x\nsay: x":   "duration",
		"call: t {\"a\":":          "not JSON",
		"call: ":                   "no tool",
		"think: only":              "no answer",
		`{"calls":[{"tool":""}]}`:  "no tool",
		`{"errors":[{"kind":""}]}`: "not a kind",
	} {
		if _, err := New(Config{Script: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A bug of the turn is seen with the scripted model too.
func TestOrphansAreRefused(t *testing.T) {
	req := start("x")
	req.Messages = append(req.Messages, model.User(model.Result("nobody's", false)))
	_, err := create(t, "say: x").Ask(t.Context(), req, nil)
	if kind, _ := model.KindOf(err); kind != model.Refused {
		t.Errorf("%v", err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Load(path); err != nil || text != script {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.Truncate(path, maxScript+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("a script without a bound is read")
	}
}

func FuzzInputAsScript(f *testing.F) {
	f.Add(script)
	f.Add("+ run: x\n{\"calls\":[{}]}")
	f.Fuzz(func(t *testing.T, input string) {
		c, err := New(Config{Sleep: func(context.Context, time.Duration) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(input, "stall") {
			return
		}
		a, err := c.Ask(t.Context(), start("x"+input), nil)
		if err != nil {
			if _, is := model.KindOf(err); !is {
				t.Fatal(err)
			}
			return
		}
		for _, b := range a.Blocks {
			if !json.Valid(b.Raw) {
				t.Fatalf("%s", b.Raw)
			}
		}
	})
}
