package upstream

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// ToolName is the name under which rules and the journal know an upstream.
func ToolName(name string) string { return "proxy_" + name }

// Calls are the upstreams that commands of one agent may ask for. Its methods may be called from many goroutines.
type Calls struct{ own, agents *tools.Registry }

// Calls makes those of an agent: the named upstreams, all when names is nil. The upstreams' own rules and the agent's are both
// asked, and the stricter one holds.
func (s *Set) Calls(rules []tools.Rule, names []string) (*Calls, error) {
	if names == nil {
		names = s.Names()
	}
	var own, agents []tools.Tool
	var ownRules []tools.Rule
	for _, name := range names {
		u, there := s.Get(name)
		if !there {
			return nil, fmt.Errorf("there is no upstream %q; there are %q", name, s.Names())
		}
		tool := u.tool()
		own, ownRules = append(own, tool), append(ownRules, u.rules...)
		tool.Policy = journalv1.Policy_POLICY_ALLOW
		agents = append(agents, tool)
	}
	c := &Calls{}
	var err error
	if c.own, err = tools.New(ownRules, own...); err != nil {
		return nil, err
	}
	c.agents, err = tools.New(rules, agents...)
	return c, err
}

// Plan is tools.Registry's.
func (c *Calls) Plan(name string, text json.RawMessage) tools.Plan {
	plan := c.own.Plan(name, text)
	plan.Policy = max(plan.Policy, c.agents.Plan(name, text).Policy)
	return plan
}

// Run is tools.Registry's.
func (c *Calls) Run(ctx context.Context, name string, call tools.Call) (tools.Result, error) {
	return c.own.Run(ctx, name, call)
}

// Show adds to arguments what a person should see of the body: "body" when that is all of it, else "body_begins".
func (c *Calls) Show(text json.RawMessage, body []byte) json.RawMessage { return shown(text, body) }

// Title is "METHOD /path?query".
func (c *Calls) Title(text json.RawMessage) string {
	var a args
	if json.Unmarshal(text, &a) != nil || a.Query == "" {
		return a.Request
	}
	return a.Request + "?" + a.Query
}

func (u *Upstream) tool() tools.Tool {
	class := journalv1.EffectClass_EFFECT_CLASS_OPAQUE
	if u.idempotencyHeader != "" {
		class = journalv1.EffectClass_EFFECT_CLASS_KEYED
	}
	return tools.Tool{
		Name: ToolName(u.Name), Description: "Ask " + u.Name + ".", Schema: json.RawMessage(schema), Class: class, Policy: u.policy, Run: u.run,
	}
}
