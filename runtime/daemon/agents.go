package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/anthropic"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/openai"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// agentsFile is the form of Config.Agents.
type agentsFile struct {
	Agents map[string]agentEntry `json:"agents"`
}

// agentEntry is an agent; what it leaves out is as the flags say. Model and URL belong to a provider: one that names another
// than the flags' inherits neither.
type agentEntry struct {
	Provider  string          `json:"provider"`
	Model     string          `json:"model"`
	URL       string          `json:"url"`
	System    string          `json:"system"`
	MaxTokens int64           `json:"max_tokens"`
	Options   json.RawMessage `json:"options"`
	// Tools by name; all when left out.
	Tools []string    `json:"tools"`
	Rules []ruleEntry `json:"rules"`
	// Upstreams that its commands may reach, by name; all when left out.
	Upstreams []string `json:"upstreams"`
}

type ruleEntry struct {
	Tool   string `json:"tool"`
	Arg    string `json:"arg"`
	Match  string `json:"match"`
	Policy string `json:"policy"`
}

// agents are all there are.
type agents struct {
	byName map[string]driver.Agent
	// any answers in every session when there is no file.
	any *driver.Agent
}

// Agent gives one by its name.
func (a *agents) Agent(name string) (driver.Agent, error) {
	if a.any != nil {
		return *a.any, nil
	}
	agent, there := a.byName[name]
	if !there {
		return driver.Agent{}, fmt.Errorf("there is no agent %q", name)
	}
	return agent, nil
}

func newAgents(c Config, s Secrets, back *wayBack) (*agents, error) {
	if c.Agents == "" {
		one, err := newAgent(agentEntry{}, c, s, back)
		return &agents{any: &one}, err
	}
	text, err := os.ReadFile(c.Agents)
	if err != nil {
		return nil, fmt.Errorf("agents: %w", err)
	}
	var file agentsFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("agents: %s: %w", c.Agents, err)
	}
	if len(file.Agents) == 0 {
		return nil, fmt.Errorf("agents: %s names none", c.Agents)
	}
	all := &agents{byName: map[string]driver.Agent{}}
	for name, entry := range file.Agents {
		if all.byName[name], err = newAgent(entry, c, s, back); err != nil {
			return nil, fmt.Errorf("agent %q: %w", name, err)
		}
	}
	return all, nil
}

func newAgent(e agentEntry, c Config, s Secrets, back *wayBack) (driver.Agent, error) {
	e.Provider, e.System = cmp.Or(e.Provider, c.Provider), cmp.Or(e.System, c.System)
	if e.Provider == c.Provider {
		e.Model, e.URL = cmp.Or(e.Model, c.Model), cmp.Or(e.URL, c.ModelURL)
	}
	m, err := newModel(e, c, s)
	if err != nil {
		return driver.Agent{}, err
	}
	if e.Model == "" && e.Provider == "scripted" {
		e.Model = "script"
	}
	if e.Model == "" {
		return driver.Agent{}, errors.New("no model is named: set FLYFLEET_MODEL, or the model of an agent whose provider is not FLYFLEET_MODEL_PROVIDER")
	}
	rules, err := newRules(e)
	if err != nil {
		return driver.Agent{}, err
	}
	registry, err := newRegistry(e, rules)
	if err != nil {
		return driver.Agent{}, err
	}
	agent := driver.Agent{Model: m, Tools: registry, Agent: turn.Agent{
		Provider: m.Provider(), Model: e.Model, System: e.System, MaxTokens: e.MaxTokens, Options: e.Options,
	}}
	switch {
	case back == nil && e.Upstreams != nil:
		return driver.Agent{}, errors.New("it names upstreams, and there are none: set FLYFLEET_UPSTREAMS")
	case back != nil && (e.Upstreams == nil || len(e.Upstreams) > 0):
		if agent.Calls, err = back.upstreams.Calls(rules, e.Upstreams); err != nil {
			return driver.Agent{}, err
		}
	}
	for _, tool := range registry.Tools() {
		agent.Agent.Tools = append(agent.Agent.Tools, model.ToolDef{Name: tool.Name, Description: tool.Description, Schema: tool.Schema})
	}
	return agent, nil
}

func newModel(e agentEntry, c Config, s Secrets) (model.Model, error) {
	provider, name, _ := strings.Cut(e.Provider, ":")
	key := func(context.Context) (string, error) { return s.ModelKey, nil }
	if provider != "scripted" && s.ModelKey == "" {
		return nil, fmt.Errorf("FLYFLEET_MODEL_KEY is not set: provider %s needs an API key", provider)
	}
	switch provider {
	case "scripted":
		script := ""
		if c.Script != "" {
			var err error
			if script, err = scripted.Load(c.Script); err != nil {
				return nil, err
			}
		}
		return scripted.New(scripted.Config{Script: script})
	case "anthropic":
		return anthropic.New(anthropic.Config{Name: name, BaseURL: e.URL, Key: key, MaxTokens: e.MaxTokens})
	case "openai":
		return openai.New(openai.Config{Name: name, BaseURL: e.URL, Key: key, MaxTokens: e.MaxTokens})
	}
	return nil, fmt.Errorf("provider %q is unknown: scripted, anthropic or openai", e.Provider)
}

func newRules(e agentEntry) ([]tools.Rule, error) {
	var rules []tools.Rule
	for _, r := range e.Rules {
		policy, err := tools.ParsePolicy(r.Policy)
		if err != nil {
			return nil, err
		}
		rule := tools.Rule{Tool: r.Tool, Arg: r.Arg, Policy: policy}
		if r.Match != "" {
			if rule.Match, err = regexp.Compile(r.Match); err != nil {
				return nil, fmt.Errorf("rule for %s: %w", r.Tool, err)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func newRegistry(e agentEntry, rules []tools.Rule) (*tools.Registry, error) {
	all := tools.Builtin()
	if e.Tools == nil {
		return tools.New(rules, all...)
	}
	var some []tools.Tool
	for _, name := range e.Tools {
		found := false
		for _, tool := range all {
			if tool.Name == name {
				some, found = append(some, tool), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no tool %q", name)
		}
	}
	return tools.New(rules, some...)
}
