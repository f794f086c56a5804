package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/upstream"
)

func parse(t *testing.T, url, more string) (*upstream.Set, *upstream.Upstream) {
	t.Helper()
	set, err := upstream.Parse(fmt.Appendf(nil, `{"upstreams": {"crm": {"url": %q, "credential": {"name": "crm", "header": "X-Key", "template": "k {credential}"}%s}}}`, url, more))
	if err != nil {
		t.Fatal(err)
	}
	u, _ := set.Get("crm")
	return set, u
}

func TestWrongConfigurationIsNamed(t *testing.T) {
	const good = `"url": "https://crm.example/v2"`
	for text, want := range map[string]string{
		`{}`:                                                          "names none",
		`{"upstreams": {}}`:                                           "names none",
		`{"upstream": {}}`:                                            "unknown field",
		`{"upstreams": {"C R M": {}}}`:                                "lower-case",
		`{"upstreams": {"crm": {}}}`:                                  "https://",
		one(`"url": "http://crm.example"`):                            "https://",
		one(`"url": "https://u:p@crm.example"`):                       "https://",
		one(`"url": "https://crm.example/?a=b"`):                      "https://",
		one(`"url": "https://crm.example/a/../b"`):                    "not plain",
		one(good + `, "urls": 1`):                                     "unknown field",
		one(good + `, "policy": "maybe"`):                             "allow, ask or deny",
		one(good + `, "rules": [{"path": "/a"}]`):                     "rule 1",
		one(good + `, "rules": [{"path": "a", "policy": "ask"}]`):     "begins with a slash",
		one(good + `, "rules": [{"path": "/a*", "policy": "ask"}]`):   "whole parts",
		one(good + `, "rules": [{"path": "/a//b", "policy": "ask"}]`): "empty part",
		one(good + `, "rules": [{"path": "/a", "methods": ["get"], "policy": "ask"}]`):                           `"get"`,
		one(good + `, "credential": {"header": "X", "template": "{credential}"}`):                                "no name",
		one(good + `, "credential": {"name": "a", "header": "Host", "template": "{credential}"}`):                "Host",
		one(good + `, "credential": {"name": "a", "header": "X", "template": "Bearer"}`):                         "{credential}",
		one(good + `, "credential": {"name": "a", "header": "X", "template": "{credential}\n"}`):                 "control",
		one(good + `, "idempotency_header": "Connection"`):                                                       "Connection",
		one(good + `, "headers": ["Authorization"]`):                                                             "Authorization",
		one(good + `, "credential": {"name": "a", "header": "X", "template": "{credential}"}, "headers": ["x"]`): `"x"`,
		one(good + `, "answer_headers": ["Set-Cookie"]`):                                                         "Set-Cookie",
		one(good + `, "max_request_bytes": 1000000000`):                                                          "max_request_bytes",
		one(good + `, "max_answer_bytes": -1`):                                                                   "max_answer_bytes",
		one(good + `, "timeout": "1"`):                                                                           "timeout",
		one(good + `, "timeout": "1h"`):                                                                          "timeout",
	} {
		if _, err := upstream.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := upstream.Parse([]byte(one(good))); err != nil {
		t.Error(err)
	}
	if _, err := upstream.Parse([]byte(one(`"url": "http://127.0.0.1:1"`))); err != nil {
		t.Error(err)
	}
}

func one(members string) string { return `{"upstreams": {"crm": {` + members + `}}}` }

// A path has one spelling, and none that a server could take for a way up.
func FuzzPathHasOneSpelling(f *testing.F) {
	for _, path := range []string{"/", "/a/b", "/%61", "/a%2fb", "/a//b", "/..", "/%2e%2e/x", "/a/..;x/b", "/ä", "/a%00", "/a b", "/a%", "/a\\..\\b", "/a/"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		once, err := upstream.Canonical(path)
		if err != nil {
			return
		}
		if twice, err := upstream.Canonical(once); err != nil || twice != once {
			t.Errorf("%q is %q and then %q, %v", path, once, twice, err)
		}
		if strings.Contains(once, "//") || strings.ContainsAny(once, "\\ \x00\r\n?#") || once[0] != '/' {
			t.Errorf("%q is %q", path, once)
		}
		for part := range strings.SplitSeq(once, "/") {
			if part == ".." || part == "." {
				t.Errorf("%q is %q", path, once)
			}
		}
	})
}

func TestPathsThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b": "/a/b", "/%61/b": "/a/b", "/a%2Fb": "/a%2Fb", "/a%2fb": "/a%2Fb", "/a/": "/a/", "": "/", "/": "/", "/a;b": "/a%3Bb",
		"/a//b": "", "//a": "", "/.": "", "/a/..": "", "/a/%2e%2E/b": "", "/a%2f..%2fb": "", "/..;/b": "", "/a%5c..": "", "/a%00b": "", "/a%0d": "", "/%zz": "",
	} {
		got, err := upstream.Canonical(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", path, got, err)
		}
	}
}

// The stricter of the upstream's rules and the agent's holds.
func TestStricterRuleHolds(t *testing.T) {
	set, u := parse(t, "https://crm.example", `, "rules": [
		{"methods": ["GET", "HEAD"], "path": "/contacts/**", "policy": "allow"},
		{"methods": ["DELETE"], "path": "/**", "policy": "deny"},
		{"path": "/contacts/*/notes", "policy": "allow"}]`)
	calls, err := set.Calls([]tools.Rule{
		{Tool: "proxy_*", Arg: "request", Match: regexp.MustCompile("/secret"), Policy: journalv1.Policy_POLICY_ASK},
		{Tool: "*", Policy: journalv1.Policy_POLICY_ALLOW},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const allow, ask, deny = journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_ASK, journalv1.Policy_POLICY_DENY
	for request, want := range map[string]journalv1.Policy{
		"GET /contacts": allow, "GET /contacts/1/x": allow, "HEAD /contacts/": allow, "GET /contactsx": ask, "POST /contacts": ask,
		"DELETE /contacts/1/notes": deny, "POST /contacts/1/notes": allow, "POST /contacts/1/2/notes": ask, "GET /contacts/secret": ask, "PUT /x/contacts/1/notes": ask,
	} {
		method, path, _ := strings.Cut(request, " ")
		args := arguments(t, u, method, path, "", nil)
		if plan := calls.Plan("proxy_crm", args); plan.Policy != want || plan.Class != journalv1.EffectClass_EFFECT_CLASS_OPAQUE {
			t.Errorf("%s: %+v", request, plan)
		}
	}
	if _, err := set.Calls(nil, []string{"hr"}); err == nil || !strings.Contains(err.Error(), "hr") {
		t.Errorf("an upstream that is not there: %v", err)
	}
}

func arguments(t *testing.T, u *upstream.Upstream, method, target, body string, header http.Header) json.RawMessage {
	t.Helper()
	r := httptest.NewRequest(method, "http://runtime"+target, nil)
	if header != nil {
		r.Header = header
	}
	asked, err := u.Ask(r, r.URL.EscapedPath(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	args, err := asked.Args()
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// with is a call whose submission brought the credential.
func with(args json.RawMessage, body, key string) tools.Call {
	return tools.Call{Args: args, Body: []byte(body), Key: key, Credential: func(_ context.Context, name string) (string, bool, error) {
		return "s3cret-" + name, true, nil
	}}
}

func run(t *testing.T, set *upstream.Set, call tools.Call) tools.Result {
	t.Helper()
	calls, err := set.Calls(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := calls.Run(t.Context(), "proxy_crm", call)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// What belongs to a connection, to a caller or to us does not pass, in either direction, and the credential does not come back.
func TestHeadersThatPassAreNamed(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		for name, value := range map[string]string{
			"Set-Cookie": "a", "Location": "https://elsewhere", "Www-Authenticate": "Basic", "Server": "x", "Etag": "s3cret-crm", "X-More": "more", "X-Other": "o",
			"Content-Type": "text/plain",
		} {
			w.Header().Set(name, value)
		}
		fmt.Fprintf(w, "%s %x", r.Header.Get("X-Key"), r.Header.Get("X-Key"))
	}))
	defer server.Close()
	set, u := parse(t, server.URL, `, "headers": ["X-Ask"], "answer_headers": ["X-More"]`)
	args := arguments(t, u, "POST", "/a", "b", http.Header{
		"Authorization": {"Bearer token"}, "Cookie": {"c"}, "X-Key": {"mine"}, "X-Forwarded-For": {"1"}, "X-Ask": {"yes"}, "Accept": {"a", "b"},
		"If-Match": {"x"}, "Connection": {"if-match, close"}, "Idempotency-Key": {"k"}, "User-Agent": {"u"}, "Transfer-Encoding": {"chunked"},
	})
	result := run(t, set, with(args, "b", ""))
	if got.Get("X-Key") != "k s3cret-crm" || got.Get("X-Ask") != "yes" || got.Get("Accept") != "a, b" || got.Get("User-Agent") != "flyfleet-runtime" {
		t.Errorf("sent %v", got)
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For", "If-Match", "Idempotency-Key"} {
		if got.Get(name) != "" {
			t.Errorf("%s was sent", name)
		}
	}
	answer, err := upstream.DecodeAnswer(result.Answer)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Set-Cookie", "Location", "Www-Authenticate", "Server", "X-Other"} {
		if _, there := answer.Headers[name]; there {
			t.Errorf("%s came back", name)
		}
	}
	if answer.Headers["X-More"] != "more" || answer.Headers["Etag"] != "[secret]" || strings.Contains(string(answer.Body), "s3cret") ||
		strings.Contains(string(answer.Body), fmt.Sprintf("%x", "s3cret-crm")) || strings.Contains(string(result.Content), "s3cret") {
		t.Errorf("answer %+v %s, content %s", answer, answer.Body, result.Content)
	}
}

// A redirect is the command's to see, and carries the credential nowhere.
func TestRedirectIsNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	set, u := parse(t, server.URL, "")
	result := run(t, set, with(arguments(t, u, "GET", "/a", "", nil), "", ""))
	if answer, err := upstream.DecodeAnswer(result.Answer); err != nil || answer.Status != http.StatusTemporaryRedirect || elsewhere.Load() != 0 {
		t.Errorf("%+v, %v; the other host was asked %d times", answer, err, elsewhere.Load())
	}
}

// Whatever is wrong with a call is said, and nothing of a credential with it.
func TestCallThatCannotBeSentSaysWhy(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/long":
			_, _ = w.Write(make([]byte, 101))
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "short")
		case "/coded":
			w.Header().Set("Content-Encoding", "br")
		}
	}))
	defer server.Close()
	set, u := parse(t, server.URL, `, "max_answer_bytes": 100, "max_request_bytes": 10`)
	keyed, _ := parse(t, server.URL, `, "idempotency_header": "Idempotency-Key"`)
	down, _ := parse(t, "http://127.0.0.1:1", "")
	plain := arguments(t, u, "POST", "/a", "b", nil)
	for name, c := range map[string]struct {
		set     *upstream.Set
		call    tools.Call
		want    string
		unknown bool
		asked   int32
	}{
		"other bytes":   {set, with(plain, "c", ""), "not the one", false, 0},
		"no bytes":      {set, with(plain, "", ""), "not the one", false, 0},
		"edited":        {set, with(json.RawMessage(`{"request": "POST /a", "body": "edited"}`), "b", ""), "HTTP 200", false, 1},
		"edited wrong":  {set, with(json.RawMessage(`{"request": "POST /../a"}`), "", ""), "not plain", false, 0},
		"edited header": {set, with(json.RawMessage(`{"request": "POST /a", "headers": {"X-Key": "x"}}`), "", ""), "header", false, 0},
		"edited query":  {set, with(json.RawMessage(`{"request": "POST /a", "query": "a b"}`), "", ""), "query", false, 0},
		"edited length": {set, with(json.RawMessage(`{"request": "POST /a", "body": "12345678901"}`), "", ""), "10 bytes", false, 0},
		"no credential": {set, tools.Call{Args: plain, Body: []byte("b")}, `no credential "crm"`, false, 0},
		"unreachable":   {down, with(plain, "b", ""), "cannot be reached", false, 0},
		"too long":      {set, with(arguments(t, u, "GET", "/long", "", nil), "", ""), "100 bytes", false, 1},
		"encoded":       {set, with(arguments(t, u, "GET", "/coded", "", nil), "", ""), "encoding", false, 1},
		"cut":           {set, with(arguments(t, u, "POST", "/cut", "", nil), "", ""), "Unknown", true, 1},
		"cut, keyed":    {keyed, with(arguments(t, u, "POST", "/cut", "", nil), "", "key"), "Unknown", true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			before := asked.Load()
			result := run(t, c.set, c.call)
			if !strings.Contains(string(result.Content), c.want) || result.Unknown != c.unknown || strings.Contains(string(result.Content), "s3cret") {
				t.Errorf("%+v: %s", result, result.Content)
			}
			if n := asked.Load() - before; n != c.asked {
				t.Errorf("sent %d times", n)
			}
		})
	}
}
