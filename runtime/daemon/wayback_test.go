package daemon

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// TestMain lets the test's own program be what a command runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "call-back" {
		callBack(os.Stdout, os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// callBack asks for a path and prints the answer.
func callBack(out io.Writer, path string) {
	req, err := http.NewRequest(http.MethodPost, os.Getenv("FLYFLEET_PROXY_URL")+path, strings.NewReader("hello"))
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("FLYFLEET_PROXY_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(resp.Body)
	fmt.Fprintf(out, "answer: %d %s\n", resp.StatusCode, said)
}

// A replica that is configured so lets its commands call back, after a person's yes.
func TestReplicaServesTheWayBack(t *testing.T) {
	var got atomic.Value
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization"))
		fmt.Fprint(w, "made")
	}))
	defer crm.Close()
	var target atomic.Pointer[url.URL]
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) }})
	defer front.Close()
	file := filepath.Join(t.TempDir(), "upstreams.json")
	if err := os.WriteFile(file, fmt.Appendf(nil,
		`{"upstreams": {"crm": {"url": %q, "credential": {"name": "crm", "header": "Authorization", "template": "Bearer {credential}"}}}}`, crm.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, "", func(c *Config) { c.Upstreams, c.CallbackURL = file, front.URL })
	target.Store(&url.URL{Scheme: "http", Host: r.address})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	session := r.session()
	made, err := r.api.Submit(t.Context(), connect.NewRequest(&runtimev1.SubmitRequest{
		SessionId: session, IdempotencyKey: store.NewID().String(), Credentials: map[string]string{"crm": "tenant-credential-1357"},
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: "run: " + self + " call-back /crm/contacts\nsay: {{result}}"}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	r.approve(session)
	r.settled(made.Msg.GetSubmission().GetSubmissionId())
	if asked := got.Load(); asked != "POST /contacts Bearer tenant-credential-1357" {
		t.Errorf("the upstream got %v", asked)
	}
	entries, err := r.api.ListEntries(t.Context(), connect.NewRequest(&runtimev1.ListEntriesRequest{SessionId: session}))
	if err != nil {
		t.Fatal(err)
	}
	told := ""
	for _, e := range entries.Msg.GetEntries() {
		told += string(e.GetBody().GetToolResult().GetContent()) + "\n"
	}
	if !strings.Contains(told, "answer: 200 made") || strings.Contains(told+r.log.String(), "tenant-credential-1357") {
		t.Errorf("the results are %s", told)
	}
}

// What is missing or wrong is said before anything runs, and no key with it.
func TestWayBackSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", `{"upstreams": {"crm": {"url": "https://crm.example", "credential": {"name": "crm", "header": "Authorization", "template": "Bearer {credential}"}}}}`, 0o600)
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	short := base64.StdEncoding.EncodeToString([]byte("short-key"))
	open := write("open.key", key, 0o644)
	closed := write("closed.key", key+"\n", 0o600)
	const at, sealing = "https://runtime.example/", "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	for name, c := range map[string]struct {
		config  Config
		secrets Secrets
		want    string
	}{
		"no file":        {Config{Upstreams: filepath.Join(dir, "none"), CallbackURL: at}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_UPSTREAMS"},
		"a wrong file":   {Config{Upstreams: closed, CallbackURL: at}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_UPSTREAMS"},
		"no token key":   {Config{Upstreams: good, CallbackURL: at}, Secrets{SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"a short key":    {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: short, SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"no base64":      {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: "short-key!", SealingKeys: sealing}, "FLYFLEET_TOKEN_KEYS"},
		"an open file":   {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: open, SealingKeys: sealing}, "chmod 600"},
		"no sealing key": {Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: key}, "FLYFLEET_SEALING_KEYS"},
		"no URL":         {Config{Upstreams: good}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_CALLBACK_URL"},
		"no http":        {Config{Upstreams: good, CallbackURL: "runtime:8090"}, Secrets{TokenKeys: key, SealingKeys: sealing}, "FLYFLEET_CALLBACK_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newWayBack(c.config, c.secrets)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "short-key") || strings.Contains(err.Error(), key) {
				t.Errorf("error %v", err)
			}
		})
	}
	if none, err := newWayBack(Config{}, Secrets{}); none != nil || err != nil {
		t.Errorf("without a file: %+v, %v", none, err)
	}
	for _, keys := range []string{key, key + "," + key, closed} {
		back, err := newWayBack(Config{Upstreams: good, CallbackURL: at}, Secrets{TokenKeys: keys, SealingKeys: sealing})
		if err != nil {
			t.Fatal(err)
		}
		if back.driver().URL != "https://runtime.example/v1/proxy" || back.gateway().Keys == nil {
			t.Errorf("the way back is %+v", back)
		}
		flags := Config{Provider: "scripted", Agents: write("agents.json", `{"agents": {"all": {}, "none": {"upstreams": []}, "crm": {"upstreams": ["crm"]}}}`, 0o600)}
		all, err := newAgents(flags, Secrets{}, back)
		if err != nil {
			t.Fatal(err)
		}
		for name, may := range map[string]bool{"all": true, "none": false, "crm": true} {
			if agent, err := all.Agent(name); err != nil || (agent.Calls != nil) != may {
				t.Errorf("agent %s: %+v, %v", name, agent.Calls, err)
			}
		}
		if _, err := newAgents(flags, Secrets{}, nil); err == nil || !strings.Contains(err.Error(), "FLYFLEET_UPSTREAMS") {
			t.Errorf("agents with upstreams where there are none: %v", err)
		}
		flags.Agents = write("wrong.json", `{"agents": {"a": {"upstreams": ["hr"]}}}`, 0o600)
		if _, err := newAgents(flags, Secrets{}, back); err == nil || !strings.Contains(err.Error(), `"hr"`) {
			t.Errorf("an agent with an upstream that is not there: %v", err)
		}
	}
}
