package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// Run holds a client to the seam.
func Run(t *testing.T, d Dialect) {
	for name, test := range map[string]func(*testing.T, Dialect){
		"WholeAnswer": wholeAnswer, "RawGoesBack": rawGoesBack, "ArgumentsOfAnyKind": argumentsOfAnyKind,
		"EveryAnswerGoesBack": everyAnswerGoesBack, "ForeignBlocksAreConverted": foreignBlocks, "Refusals": refusals,
		"RetryAfter": retryAfter, "RedirectIsNotFollowed": redirect, "NothingLeaksTheKey": noLeak,
		"NoKey": noKey, "StallIsCut": stall, "BrokenStreams": broken, "TooBig": tooBig, "Big": big,
		"CallersEnd": callersEnd, "EnvironmentIsNotRead": environment, "OptionsAreSent": options, "OrphansAreNotSent": orphans,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

// quick are limits under which a stalled fake is seen soon.
var quick = model.Limits{FirstByte: 100 * time.Millisecond, Idle: 100 * time.Millisecond}

func (d Dialect) client(t testing.TB, s *Server, limits model.Limits) model.Model {
	return d.New(t, s.URL, limits, func() (string, error) { return Key, nil })
}

func hello() model.Request {
	return model.Request{Model: "m-1", System: "Be <brief> & kind.", Messages: []model.Message{model.User(model.Text("hello"))}}
}

// spoken has all that is hard: pieces that part an escape's pair, NULs, half surrogates, signs of HTML.
func spoken() Spoken {
	return Spoken{
		Thinking: []string{"let me ", `th\u0069nk <\ud83d`, `\ude00>`}, Signature: "c2lnbmF0dXJl+/==",
		Text: []string{"I ", `run\u0000 `, "<b>&\u2028é"},
		Calls: []SpokenCall{
			{"call_a1", "exec", []string{``, `{"z": 1.0, "a":"<\u00`, `00\ud800>", "z":"é`, `\ud83d\ude00"`, `, "n":12345678901234567890}`}},
			{"call_b2", "read_file", []string{`{}`}},
		},
	}
}

func args(c SpokenCall) string { return strings.Join(c.Args, "") }

func ask(t testing.TB, m model.Model, req model.Request) (model.Answer, []model.Delta) {
	t.Helper()
	var deltas []model.Delta
	a, err := m.Ask(t.Context(), req, func(d model.Delta) error {
		deltas = append(deltas, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, deltas
}

func wholeAnswer(t *testing.T, d Dialect) {
	s := NewServer(t, d, Stream(d.Events(spoken()), nil))
	m := d.client(t, s, model.Limits{})
	a, deltas := ask(t, m, hello())
	if a.StopReason != model.StopTools || a.Provider != m.Provider() || a.Model != "m-1" || a.ResponseID != "resp_1" {
		t.Errorf("%+v", a)
	}
	if want := (model.Usage{Input: 20, Output: 7, CacheRead: 3}); a.Usage.Input != want.Input || a.Usage.Output != want.Output || a.Usage.CacheRead != want.CacheRead {
		t.Errorf("usage %+v", a.Usage)
	}
	var kinds []model.Kind
	for i, b := range a.Blocks {
		kinds = append(kinds, b.Kind)
		if !json.Valid(b.Raw) {
			t.Errorf("raw of block %d is not JSON: %s", i, b.Raw)
		}
		again, err := model.Decode(a.Provider, b.Raw)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(b) {
			t.Errorf("block %d: %+v, decoded %+v, %v", i, b, again, err)
		}
	}
	want := []model.Kind{model.KindThinking, model.KindText, model.KindToolCall, model.KindToolCall}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Fatalf("kinds %v", kinds)
	}
	if got := a.Blocks[0].Text; got != "let me think <😀>" {
		t.Errorf("thinking %q", got)
	}
	if got := a.Blocks[1].Text; got != "I run\x00 <b>&\u2028é" {
		t.Errorf("text %q", got)
	}
	for i, c := range spoken().Calls {
		b := a.Blocks[2+i]
		if b.CallID != c.ID || b.Tool != c.Name || string(b.Args) != args(c) {
			t.Errorf("call %d: %s %s %s, want %s", i, b.CallID, b.Tool, b.Args, args(c))
		}
	}
	shown := map[int]string{}
	for _, d := range deltas {
		shown[d.Block] += d.Tool + d.Text
		if a.Blocks[d.Block].Kind != d.Kind {
			t.Errorf("delta %+v of a block of kind %d", d, a.Blocks[d.Block].Kind)
		}
	}
	if shown[1] != a.Blocks[1].Text || !strings.HasPrefix(shown[2], `exec{"z": 1.0`) || shown[3] != "read_file{}" {
		t.Errorf("shown %v", shown)
	}
}

// anthropics/claude-code#63147: what came goes back, byte for byte.
func rawGoesBack(t *testing.T, d Dialect) {
	s := NewServer(t, d, Stream(d.Events(spoken()), nil), Stream(d.Events(Spoken{Text: []string{"done"}}), nil))
	m := d.client(t, s, model.Limits{})
	a, _ := ask(t, m, hello())
	next := hello()
	next.Messages = append(next.Messages, a.Message(), model.User(
		model.Result("call_a1", true, model.Text("no <such> file\x00\xff"), model.Image("image/png", []byte("png"))),
		model.Result("call_b2", false), model.Text("go on")))
	b, _ := ask(t, m, next)
	if b.StopReason != model.StopEnd || b.Blocks[0].Text != "done" {
		t.Errorf("%+v", b)
	}
	SentBack(t, s.Bodies()[1], a.Blocks)
	for _, part := range []string{`no <such> file\u0000`, "\uFFFD", "cG5n", "go on"} {
		if !bytes.Contains(s.Bodies()[1], []byte(part)) {
			t.Errorf("the request lacks %q: %s", part, s.Bodies()[1])
		}
	}
}

// SentBack fails when a body does not hold the raw bytes of blocks, in their order.
func SentBack(t testing.TB, body []byte, blocks []model.Block) {
	t.Helper()
	rest := body
	for i, b := range blocks {
		want := b.Raw
		if b.Kind != model.KindToolCall && b.Raw[1] == '"' && !bytes.Contains(b.Raw, []byte(`"type"`)) {
			// A member of a message: it is spliced in without its braces.
			want = b.Raw[1 : len(b.Raw)-1]
		}
		at := bytes.Index(rest, want)
		if at < 0 {
			t.Fatalf("block %d did not go back as it came:\n%s\nin\n%s", i, want, rest)
		}
		rest = rest[at+len(want):]
	}
}

// THU-MAIC/OpenMAIC#1493, Autumn-27/ARTEX#112: arguments that are hard, cut, or not JSON fail no turn and can be sent back.
func argumentsOfAnyKind(t *testing.T, d Dialect) {
	for sent, want := range map[string]string{
		`{"a":"\ud800"}`: `{"a":"\ud800"}`,
		`{"a":"\u0000"}`: `{"a":"\u0000"}`,
		`{"a":"b`:        `{"INVALID_JSON":"{\"a\":\"b"}`,
		`[1,2]`:          `{"INVALID_JSON":"[1,2]"}`,
		"\x00":           `{"INVALID_JSON":"\u0000"}`,
		``:               `{}`,
	} {
		call := Spoken{Calls: []SpokenCall{{"call_1", "exec", strings.SplitAfter(sent, ":")}}}
		s := NewServer(t, d, Stream(d.Events(call), nil), Stream(d.Events(Spoken{Text: []string{"ok"}}), nil))
		m := d.client(t, s, model.Limits{})
		a, _ := ask(t, m, hello())
		if got := string(a.Blocks[0].Args); got != want {
			t.Errorf("arguments %q became %s, want %s", sent, got, want)
		}
		next := hello()
		next.Messages = append(next.Messages, a.Message(), model.User(model.Result("call_1", true, model.Text("bad arguments"))))
		ask(t, m, next)
		SentBack(t, s.Bodies()[1], a.Blocks)
	}
}

// openclaw/openclaw#120596: after a switch of the model, thinking is left out and the rest is converted.
func foreignBlocks(t *testing.T, d Dialect) {
	s := NewServer(t, d, Stream(d.Events(spoken()), nil), Stream(d.Events(Spoken{Text: []string{"a"}}), nil),
		Stream(d.Events(Spoken{Text: []string{"b"}}), nil))
	m := d.client(t, s, model.Limits{})
	a, _ := ask(t, m, hello())
	next := hello()
	next.Model = "m-2"
	next.Messages = append(next.Messages, a.Message(), model.User(model.Result("call_a1", false), model.Result("call_b2", false)))
	ask(t, m, next)
	if body := s.Bodies()[1]; bytes.Contains(body, []byte("let me")) || bytes.Contains(body, []byte(spoken().Signature)) {
		t.Errorf("thinking was sent to another model: %s", body)
	}
	SentBack(t, s.Bodies()[1], a.Blocks[1:])

	next = hello()
	next.Messages = append(next.Messages, model.Message{Role: model.RoleAssistant, Provider: "elsewhere", Model: "m-1", Blocks: []model.Block{
		{Kind: model.KindThinking, Raw: []byte(`{"secret":"thought"}`), Text: "thought"},
		{Kind: model.KindOther, Raw: []byte(`{"secret":"other"}`)},
		{Kind: model.KindText, Raw: []byte(`{"raw":"of another"}`), Text: "I said"},
		{Kind: model.KindToolCall, Raw: []byte(`{"raw":"of another"}`), CallID: "odd id/\u00e9", Tool: "exec", Args: json.RawMessage(`{"a":"\ud800"}`)},
	}}, model.User(model.Result("odd id/\u00e9", false, model.Text("res"))))
	ask(t, m, next)
	body := s.Bodies()[2]
	for _, bad := range []string{"thought", "secret", "of another", "odd id"} {
		if bytes.Contains(body, []byte(bad)) {
			t.Errorf("%q was sent to another provider: %s", bad, body)
		}
	}
	if !bytes.Contains(body, []byte("I said")) || bytes.Count(body, []byte(`"call_`)) != 2 || !bytes.Contains(body, []byte(`\ud800`)) {
		t.Errorf("the history was not converted: %s", body)
	}
}

func fails(t testing.TB, m model.Model, ctx context.Context) *model.Error {
	t.Helper()
	_, err := m.Ask(ctx, hello(), nil)
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *model.Error", err)
	}
	return e
}

func refusals(t *testing.T, d Dialect) {
	for _, r := range append([]Refusal{
		{"400", 400, nil, "invalid_request_error", "no", model.Refused},
		{"401", 401, nil, "authentication_error", "no", model.Auth},
		{"403", 403, nil, "permission_error", "no", model.Auth},
		{"404", 404, nil, "not_found_error", "no such model", model.Refused},
		{"408", 408, nil, "", "", model.Timeout},
		{"409", 409, nil, "", "", model.Server},
		{"413", 413, nil, "request_too_large", "no", model.TooLong},
		{"422", 422, nil, "", "", model.Refused},
		{"429", 429, nil, "rate_limit_error", "slow down", model.RateLimited},
		{"429 for good", 429, map[string]string{"X-Should-Retry": "false"}, "rate_limit_error", "no", model.Refused},
		{"500", 500, nil, "api_error", "oops", model.Server},
		{"502 of a proxy", 502, map[string]string{"Content-Type": "text/html"}, "", "", model.Server},
		{"503", 503, nil, "", "", model.Overloaded},
		{"504", 504, nil, "", "", model.Timeout},
		{"529", 529, nil, "overloaded_error", "busy", model.Overloaded},
		{"204", 204, nil, "", "", model.BrokenStream},
	}, d.Refused...) {
		t.Run(r.Name, func(t *testing.T) {
			s := NewServer(t, d, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Request-Id", "req_7")
				for k, v := range r.Header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(r.Status)
				if r.Kind != "" {
					fmt.Fprint(w, d.Refusal(r.Kind, r.Message))
				} else if r.Status != 204 {
					fmt.Fprint(w, "<html>\x00"+strings.Repeat("x", 3*model.MaxMessage))
				}
			})
			e := fails(t, d.client(t, s, model.Limits{}), t.Context())
			if e.Kind != r.Want || e.Status != r.Status || e.RequestID != "req_7" {
				t.Errorf("%#v, want %s", e, r.Want)
			}
			if len(e.Message) > model.MaxMessage || strings.Contains(e.Message, "\x00") || r.Message != "" && e.Message != r.Message {
				t.Errorf("message %q", e.Message)
			}
			// No second try: it would be in nobody's journal.
			if n := len(s.Bodies()); n != 1 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func retryAfter(t *testing.T, d Dialect) {
	for _, c := range []struct {
		header map[string]string
		want   time.Duration
	}{
		{map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		{map[string]string{"Retry-After": "7", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30 * time.Second},
		{map[string]string{"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:29:00 GMT"}, 0},
		{map[string]string{"Retry-After": "-3"}, 0},
		{map[string]string{"Retry-After": "NaN"}, 0},
		{map[string]string{"Retry-After": "soon"}, 0},
		{map[string]string{"Retry-After": "1e300"}, 24 * time.Hour},
		{nil, 0},
	} {
		s := NewServer(t, d, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, d.Refusal("rate_limit_error", "slow down"))
		})
		e := fails(t, d.client(t, s, model.Limits{}), t.Context())
		if e.RetryAfter != c.want || e.Kind != model.RateLimited {
			t.Errorf("%v: waits %v, want %v", c.header, e.RetryAfter, c.want)
		}
	}
}

// A redirect would show the key to whoever it names.
func redirect(t *testing.T, d Dialect) {
	other := http.NewServeMux()
	other.HandleFunc("/", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	thief := NewServer(t, d)
	thief.Config.Handler = other
	s := NewServer(t, d, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	})
	if e := fails(t, d.client(t, s, model.Limits{}), t.Context()); e.Kind != model.Refused || e.Status != 307 {
		t.Errorf("%#v", e)
	}
}

func noLeak(t *testing.T, d Dialect) {
	s := NewServer(t, d, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, d.Refusal("authentication_error", "key "+Key+" and sk-other-0123456789 are bad, Bearer abcdefghijkl too"))
	}, Stream([]string{"data: " + d.Refusal("api_error", "bad: "+Key) + "\n\n"}, nil))
	m := d.client(t, s, model.Limits{})
	for range 2 {
		_, err := m.Ask(t.Context(), hello(), nil)
		for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
			if strings.Contains(text, Key) || strings.Contains(text, "0123456789") || strings.Contains(text, "abcdefgh") {
				t.Errorf("a key is in %s", text)
			}
		}
	}
	dead := d.New(t, "http://127.0.0.1:1", model.Limits{}, func() (string, error) { return "bad\nkey-12345678", nil })
	_, err := dead.Ask(t.Context(), hello(), nil)
	if err == nil || strings.Contains(fmt.Sprintf("%#v", err), "12345678") {
		t.Errorf("%#v", err)
	}
}

func noKey(t *testing.T, d Dialect) {
	s := NewServer(t, d)
	for _, source := range []func() (string, error){
		func() (string, error) { return "", nil },
		func() (string, error) { return "", errors.New("reading file with " + Key) },
	} {
		e := fails(t, d.New(t, s.URL, model.Limits{}, source), t.Context())
		if e.Kind != model.Auth || strings.Contains(e.Error(), Key) {
			t.Errorf("%v", e)
		}
	}
	if len(s.Bodies()) > 0 {
		t.Error("a request without a key was sent")
	}
}

// withastro/flue#538: 200, then silence.
func stall(t *testing.T, d Dialect) {
	events := d.Events(spoken())
	for name, answer := range map[string]http.HandlerFunc{
		"before the headers": Stall,
		"after the headers":  Stream(nil, Stall),
		"in the stream":      Stream(events[:len(events)/2], Stall),
		"in an event":        Stream([]string{events[0], "data: {"}, Stall),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewServer(t, d, answer)
			if e := fails(t, d.client(t, s, quick), t.Context()); e.Kind != model.Timeout || !e.Retryable() {
				t.Errorf("%#v", e)
			}
		})
	}
}

func broken(t *testing.T, d Dialect) {
	events := d.Events(spoken())
	for name, answer := range map[string]http.HandlerFunc{
		"cut before the headers": Cut,
		"cut in the stream":      Stream(events[:len(events)/2], Cut),
		"ended in the stream":    Stream(events[:len(events)/2], nil),
		"nothing":                Stream(nil, nil),
		"garbage":                Stream([]string{"data: {\"\n\n"}, nil),
		"other JSON":             Stream([]string{"data: 17\n\n"}, nil),
		"binary":                 Stream([]string{"\x00\xff\xfe data\n\n"}, nil),
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewServer(t, d, answer)
			if e := fails(t, d.client(t, s, model.Limits{}), t.Context()); e.Kind != model.BrokenStream || !e.Retryable() {
				t.Errorf("%#v", e)
			}
			if n := len(s.Bodies()); n != 1 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
	t.Run("an error in the stream", func(t *testing.T) {
		s := NewServer(t, d, Stream(append(events[:2:2], "data: "+d.Refusal("overloaded_error", "busy")+"\n\n"), nil))
		if e := fails(t, d.client(t, s, model.Limits{}), t.Context()); e.Kind != model.Overloaded || e.Message != "busy" {
			t.Errorf("%#v", e)
		}
	})
}

func tooBig(t *testing.T, d Dialect) {
	s := NewServer(t, d, Stream(d.Events(Spoken{Text: []string{strings.Repeat("x", 1<<20)}}), nil))
	e := fails(t, d.client(t, s, model.Limits{Bytes: 1 << 18}), t.Context())
	if e.Kind != model.Refused || e.Retryable() {
		t.Errorf("%#v", e)
	}
}

func big(t *testing.T, d Dialect) {
	text := make([]string, 64)
	for i := range text {
		text[i] = strings.Repeat("é", 1<<15)
	}
	arg := strings.Repeat("x", 4<<20)
	s := NewServer(t, d, Stream(d.Events(Spoken{Text: text, Calls: []SpokenCall{{"call_1", "exec", []string{`{"a":"`, arg, `"}`}}}}), nil))
	a, _ := ask(t, d.client(t, s, model.Limits{}), hello())
	if a.Blocks[0].Text != strings.Join(text, "") || len(a.Blocks[1].Args) != len(arg)+8 {
		t.Error("a big answer is not whole")
	}
}

// A lost lease, a person's cancel and a deadline are told apart, and what a viewer's end says is not touched.
func callersEnd(t *testing.T, d Dialect) {
	events := d.Events(spoken())
	lost := errors.New("the lease is lost")
	t.Run("cancel", func(t *testing.T) {
		s := NewServer(t, d, Stream(events[:len(events)-1], Stall))
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := d.client(t, s, model.Limits{}).Ask(ctx, hello(), func(model.Delta) error {
			cancel(lost)
			return nil
		})
		if _, is := model.KindOf(err); is || !errors.Is(err, lost) {
			t.Errorf("%v", err)
		}
	})
	t.Run("before", func(t *testing.T) {
		s := NewServer(t, d)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(lost)
		if _, err := d.client(t, s, model.Limits{}).Ask(ctx, hello(), nil); !errors.Is(err, lost) {
			t.Errorf("%v", err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		s := NewServer(t, d, Stream(events[:2], Stall))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		e := fails(t, d.client(t, s, model.Limits{}), ctx)
		if e.Kind != model.Timeout || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%#v", e)
		}
	})
	t.Run("delta", func(t *testing.T) {
		s := NewServer(t, d, Stream(events, nil))
		full := errors.New("the queue is full")
		if _, err := d.client(t, s, model.Limits{}).Ask(t.Context(), hello(), func(model.Delta) error { return full }); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	})
}

func environment(t *testing.T, d Dialect) {
	// One at a time: an SDK that finds one of them looks no further.
	for _, name := range []string{"API_KEY", "AUTH_TOKEN", "BASE_URL", "ORG_ID", "CUSTOM_HEADERS"} {
		t.Run(name, func(t *testing.T) {
			for _, sdk := range []string{"ANTHROPIC_", "OPENAI_"} {
				t.Setenv(sdk+name, map[string]string{"BASE_URL": "http://127.0.0.1:1", "CUSTOM_HEADERS": "X-From: environment"}[name])
				if os.Getenv(sdk+name) == "" {
					t.Setenv(sdk+name, "sk-of-the-environment")
				}
			}
			s := NewServer(t, d, func(w http.ResponseWriter, r *http.Request) {
				for name, values := range r.Header {
					if strings.Contains(strings.Join(values, " "), "environment") {
						t.Errorf("header %s is of the environment", name)
					}
				}
				Stream(d.Events(Spoken{Text: []string{"ok"}}), nil)(w, r)
			})
			ask(t, d.client(t, s, model.Limits{}), hello())
		})
	}
}

func options(t *testing.T, d Dialect) {
	s := NewServer(t, d, Stream(d.Events(Spoken{Text: []string{"ok"}}), nil))
	m := d.client(t, s, model.Limits{})
	req := hello()
	schema := `{"type":"object", "properties":{"a":{"type":"string","pattern":"<\u0041>"}}}`
	req.Tools = []model.ToolDef{{Name: "exec", Description: "runs <it>", Schema: json.RawMessage(schema)}}
	req.Options = json.RawMessage(`{"temperature": 0.50, "stop":["<"]}`)
	req.MaxTokens = 77
	ask(t, m, req)
	for _, part := range []string{schema, `"temperature":0.50`, `["<"]`, "77", "runs <it>", "Be <brief> & kind."} {
		if !bytes.Contains(s.Bodies()[0], []byte(part)) {
			t.Errorf("the request lacks %s: %s", part, s.Bodies()[0])
		}
	}
	for _, bad := range []string{`{"model":"x"}`, `{"stream":false}`, `{"messages":[]}`, `{"tools":[]}`, `[]`} {
		req.Options = json.RawMessage(bad)
		if _, err := m.Ask(t.Context(), req, nil); err == nil {
			t.Errorf("options %s were sent", bad)
		}
	}
}

func orphans(t *testing.T, d Dialect) {
	s := NewServer(t, d)
	req := hello()
	req.Messages = append(req.Messages, model.User(model.Result("nobody's", false)))
	_, err := d.client(t, s, model.Limits{}).Ask(t.Context(), req, nil)
	if kind, _ := model.KindOf(err); kind != model.Refused || len(s.Bodies()) > 0 {
		t.Errorf("%v", err)
	}
}
