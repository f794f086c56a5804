package tools_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

const (
	allow = journalv1.Policy_POLICY_ALLOW
	ask   = journalv1.Policy_POLICY_ASK
	deny  = journalv1.Policy_POLICY_DENY
)

func mail() tools.Tool {
	return tools.Tool{
		Name: "mail", Schema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"}},"required":["to"],"additionalProperties":false}`),
		Run: func(_ context.Context, call tools.Call) (tools.Result, error) {
			return tools.Result{Content: append([]byte("sent "), call.Args...)}, nil
		},
	}
}

func registry(t *testing.T, rules ...tools.Rule) *tools.Registry {
	t.Helper()
	all, err := tools.New(rules, append(tools.Builtin(), mail())...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestToolThatSaysNothingIsOpaqueAndAsks(t *testing.T) {
	want := tools.Plan{Class: journalv1.EffectClass_EFFECT_CLASS_OPAQUE, Policy: ask}
	if got := registry(t).Plan("mail", json.RawMessage(`{"to":"me"}`)); got != want {
		t.Errorf("plan %+v", got)
	}
}

func TestFirstRuleThatFitsDecides(t *testing.T) {
	all := registry(
		t,
		tools.Rule{Tool: "exec", Arg: "command", Match: regexp.MustCompile(`\bsudo\b`), Policy: deny},
		tools.Rule{Tool: "exec", Arg: "command", Match: regexp.MustCompile(`^git push`), Policy: ask},
		tools.Rule{Tool: "mail", Arg: "n", Match: regexp.MustCompile(`.`), Policy: deny},
		tools.Rule{Tool: "mail", Policy: allow},
		tools.Rule{Tool: "[", Policy: deny},
		tools.Rule{Tool: "wri*", Policy: deny},
	)
	for _, c := range []struct {
		tool, args string
		want       journalv1.Policy
	}{
		{"exec", `{"command":"ls"}`, allow},
		{"exec", `{"command":"sudo git push"}`, deny},
		{"exec", `{"command":"git push origin"}`, ask},
		{"mail", `{"to":"me","n":1}`, allow},
		{"write", `{"path":"f","content":""}`, deny},
		{"read", `{"path":"f"}`, allow},
	} {
		if got := all.Plan(c.tool, json.RawMessage(c.args)).Policy; got != c.want {
			t.Errorf("%s %s: %s", c.tool, c.args, got)
		}
	}
}

// A call that cannot run bothers nobody, and the model is told why.
func TestCallThatCannotRunIsAnsweredWithItsFault(t *testing.T) {
	all := registry(t)
	for _, c := range []struct{ tool, args, says string }{
		{"fly", `{}`, `There is no tool "fly"`},
		{"mail", `{}`, "missing property 'to'"},
		{"mail", `{"to":1}`, "got number, want string"},
		{"mail", `{"to":"me","bcc":"you"}`, "additional properties 'bcc' not allowed"},
		{"mail", `{"INVALID_JSON":"{"}`, "INVALID_JSON"},
		{"mail", `nonsense`, "not JSON"},
		{"mail", `{"to":"` + strings.Repeat("x", tools.MaxArgs) + `"}`, "at most"},
	} {
		if plan := all.Plan(c.tool, json.RawMessage(c.args)); plan.Policy != allow || plan.Class != journalv1.EffectClass_EFFECT_CLASS_PURE {
			t.Errorf("%s %.40s: plan %+v", c.tool, c.args, plan)
		}
		// UKGovernmentBEIS/inspect_ai#4944: what runs is checked where it runs, also what a person changed.
		result, err := all.Run(context.Background(), c.tool, tools.Call{Args: json.RawMessage(c.args)})
		if err != nil || !result.Failed || !strings.Contains(string(result.Content), c.says) {
			t.Errorf("%s %.40s: %q, %v", c.tool, c.args, result.Content, err)
		}
	}
}

func TestArgumentsReachTheToolAsTheyAre(t *testing.T) {
	result, err := registry(t).Run(context.Background(), "mail", tools.Call{Args: json.RawMessage(`{"to": "a\u0000b"}`)})
	if err != nil || string(result.Content) != `sent {"to": "a\u0000b"}` {
		t.Errorf("%q, %v", result.Content, err)
	}
}

func TestOrderOfToolsIsTheirNames(t *testing.T) {
	var names []string
	for _, tool := range registry(t).Tools() {
		names = append(names, tool.Name)
		if !json.Valid(tool.Schema) {
			t.Errorf("the schema of %s is no JSON", tool.Name)
		}
	}
	if got := strings.Join(names, " "); got != "edit exec glob grep list mail read write" {
		t.Errorf("tools are %s", got)
	}
}

func TestWrongToolsAreRefused(t *testing.T) {
	beside := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(beside, []byte(`{"type":"object"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*tools.Tool){
		"name":                       func(tool *tools.Tool) { tool.Name = "a b" },
		"nothing to run":             func(tool *tools.Tool) { tool.Run = nil },
		"no schema":                  func(tool *tools.Tool) { tool.Schema = nil },
		"a schema of something else": func(tool *tools.Tool) { tool.Schema = json.RawMessage(`{"type":"string"}`) },
		"a schema that reads files": func(tool *tools.Tool) {
			tool.Schema = json.RawMessage(`{"type":"object","$ref":"file://` + beside + `"}`)
		},
		"a schema that asks a server": func(tool *tools.Tool) { tool.Schema = json.RawMessage(`{"type":"object","$ref":"http://localhost/s"}`) },
		"a malformed schema":          func(tool *tools.Tool) { tool.Schema = json.RawMessage(`{"type":"object","properties":3}`) },
	} {
		tool := mail()
		change(&tool)
		if _, err := tools.New(nil, tool); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := tools.New(nil, mail(), mail()); err == nil {
		t.Error("twice the same: taken")
	}
}

func TestPoliciesHaveThreeNames(t *testing.T) {
	for text, want := range map[string]journalv1.Policy{"allow": allow, "ask": ask, "deny": deny} {
		if got, err := tools.ParsePolicy(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if _, err := tools.ParsePolicy("Allow"); err == nil {
		t.Error("another name is taken")
	}
}
