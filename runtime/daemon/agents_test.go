package daemon

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// noRoad notes who is asked, and reaches nobody.
type noRoad struct{ asked string }

// RoundTrip is http.RoundTripper's.
func (r *noRoad) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked = req.URL.Host
	return nil, errors.New("no road")
}

// What an entry leaves out is as the flags say, but a model and a URL are never taken to another vendor.
func TestAgentsInheritWhatBelongsToTheirProvider(t *testing.T) {
	flags := Config{Provider: "anthropic", Model: "m", ModelURL: "http://flags.test", System: "be brief"}
	type agent struct{ Provider, Model, System, asks string }
	cases := map[string]struct {
		entry string
		flags Config
		want  agent
		wrong string
	}{
		"everything": {
			entry: `{}`, flags: flags, want: agent{"anthropic", "m", "be brief", "flags.test"},
		},
		"its own model and system prompt": {
			entry: `{"model": "own", "system": "be kind"}`, flags: flags, want: agent{"anthropic", "own", "be kind", "flags.test"},
		},
		"the same provider, named again": {
			entry: `{"provider": "anthropic"}`, flags: flags, want: agent{"anthropic", "m", "be brief", "flags.test"},
		},
		"another provider has no URL of the flags'": {
			entry: `{"provider": "openai", "model": "own"}`, flags: flags, want: agent{"openai", "own", "be brief", "api.openai.com"},
		},
		"another server of the same API is another provider": {
			entry: `{"provider": "anthropic:mine", "model": "own", "url": "http://own.test"}`, flags: flags,
			want: agent{"anthropic:mine", "own", "be brief", "own.test"},
		},
		"another provider has no model of the flags'": {
			entry: `{"provider": "openai"}`, flags: flags, wrong: "no model is named",
		},
		"scripted beside a vendor": {
			entry: `{"provider": "scripted"}`, flags: flags, want: agent{"scripted", "script", "be brief", ""},
		},
		"no model anywhere":   {entry: `{}`, flags: Config{Provider: "anthropic"}, wrong: "no model is named"},
		"an unknown provider": {entry: `{"provider": "oracle"}`, flags: flags, wrong: "oracle"},
		"an unknown member":   {entry: `{"colour": "red"}`, flags: flags, wrong: "colour"},
		"an unknown tool":     {entry: `{"tools": ["fly"]}`, flags: flags, wrong: `no tool "fly"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.flags.Agents = filepath.Join(t.TempDir(), "agents.json")
			if err := os.WriteFile(c.flags.Agents, []byte(`{"agents": {"coder": `+c.entry+`}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := newAgents(c.flags, Secrets{ModelKey: "key"}, nil)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v, want %q in it", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := all.Agent("coder")
			if err != nil {
				t.Fatal(err)
			}
			if is := (agent{got.Provider, got.Agent.Model, got.System, asks(t, got.Model)}); is != c.want {
				t.Errorf("agent is %+v, want %+v", is, c.want)
			}
			if _, err := all.Agent("another"); err == nil {
				t.Error("an agent that the file does not name is there")
			}
		})
	}
}

// Without a file there is one agent, whatever its name; a vendor's needs a key, the scripted one does not.
func TestOneAgentWithoutAFile(t *testing.T) {
	all, err := newAgents(Config{Provider: "scripted"}, Secrets{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "coder"} {
		if agent, err := all.Agent(name); err != nil || agent.Provider != "scripted" {
			t.Errorf("agent %q: %+v, %v", name, agent.Agent, err)
		}
	}
	if _, err := newAgents(Config{Provider: "openai", Model: "m"}, Secrets{}, nil); err == nil || !strings.Contains(err.Error(), "FLYFLEET_MODEL_KEY") {
		t.Errorf("a vendor without a key: %v", err)
	}
}

// asks gives the host that a model's requests go to.
func asks(t *testing.T, m model.Model) string {
	t.Helper()
	road := &noRoad{}
	before := http.DefaultTransport
	http.DefaultTransport = road
	defer func() { http.DefaultTransport = before }()
	request := model.Request{Model: "m", Messages: []model.Message{model.User(model.Text("say: hello"))}}
	_, _ = m.Ask(t.Context(), request, func(model.Delta) error { return nil })
	return road.asked
}
