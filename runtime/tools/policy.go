package tools

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Rule gives a policy to some calls. The first that fits decides. A rule looks at arguments, not at what they do: a
// pattern on a shell command keeps honest mistakes out, not a determined model.
type Rule struct {
	// Tool is a name, or a pattern as of path.Match.
	Tool string
	// Arg and Match: the argument of that name is a string in which the pattern is found. An empty Arg fits all.
	Arg    string
	Match  *regexp.Regexp
	Policy journalv1.Policy
}

// ParsePolicy reads "allow", "ask" or "deny".
func ParsePolicy(text string) (journalv1.Policy, error) {
	switch text {
	case "allow":
		return journalv1.Policy_POLICY_ALLOW, nil
	case "ask":
		return journalv1.Policy_POLICY_ASK, nil
	case "deny":
		return journalv1.Policy_POLICY_DENY, nil
	}
	return 0, fmt.Errorf("policy %q: write allow, ask or deny", text)
}

func (r *Registry) policy(tool Tool, args json.RawMessage) journalv1.Policy {
	for _, rule := range r.rules {
		if rule.fits(tool.Name, args) {
			return rule.Policy
		}
	}
	return tool.Policy
}

func (rule Rule) fits(tool string, args json.RawMessage) bool {
	// A broken pattern fits nothing; a tool's own policy then decides.
	if fits, err := path.Match(rule.Tool, tool); err != nil || !fits {
		return false
	}
	if rule.Arg == "" {
		return true
	}
	var all map[string]json.RawMessage
	var text string
	if json.Unmarshal(args, &all) != nil || json.Unmarshal(all[rule.Arg], &text) != nil {
		return false
	}
	return rule.Match != nil && rule.Match.MatchString(text)
}
