package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Tool is one thing that an agent can do.
type Tool struct {
	// Name as the model says it: letters, digits, _ and -, at most 64.
	Name        string
	Description string
	// Schema of the arguments, a JSON schema of an object.
	Schema json.RawMessage
	// Class; unspecified is opaque.
	Class journalv1.EffectClass
	// Policy where no rule says otherwise; unspecified is ask.
	Policy journalv1.Policy
	// Run does it. An error says that nothing can be said about the call: the sandbox cannot be reached, or ctx ended. What
	// goes wrong with the call itself is a Result.
	Run func(ctx context.Context, call Call) (Result, error)
}

// Call is one call of a tool.
type Call struct {
	// Args are what may run: an object that the tool's schema accepts.
	Args json.RawMessage
	Box  sandbox.Sandbox
	// ExecID is the id of an attached call on its machine, a UUIDv7, and Epoch the machine's life at the time of the
	// intent.
	ExecID string
	Epoch  string
	// Resumed: it may have been begun before, under the same ExecID.
	Resumed bool
	// Key is what a keyed call's target knows it by.
	Key string
	// SecretEnv is what a command gets beside its arguments, NAME=value: kept nowhere.
	SecretEnv []string
	// Body comes beside the arguments of a call that a command asks for.
	Body []byte
	// Credential gives a value that came with the submission, by its name; false: none of that name came, or it is over. Nil:
	// there are none.
	Credential func(ctx context.Context, name string) (string, bool, error)
	// Output gets a command's raw output from From on, as it comes. Nil: nobody wants it.
	Output func(sandbox.Output) error
	From   sandbox.Offsets
	// Mask hides secrets in text that comes in pieces. What is cut out of a long result must be masked before it is cut: half a
	// secret is not known as one. Nil: nothing is hidden here.
	Mask func(raw []byte, then Then) Clean
}

// Then is what follows a piece of a text.
type Then int

// More of the text; nothing, after which another text may come; more of it, but something is missing before.
const (
	More Then = iota
	Last
	Gap
)

// Clean is what is decided of a text that comes in pieces.
type Clean struct {
	// Data is what may be shown, and Raw how many bytes of the text it stands for: those after what was decided before.
	Data []byte
	Raw  int
	// Masks is how many secrets were hidden in it.
	Masks int
}

func (c Call) mask(raw []byte, then Then) Clean {
	if c.Mask == nil {
		return Clean{Data: raw, Raw: len(raw)}
	}
	return c.Mask(raw, then)
}

// masked hides secrets in a text. Of one that was cut off nothing is shown that may be the beginning of a secret.
func (c Call) masked(text []byte, cut bool) Clean {
	if !cut {
		return c.mask(text, Last)
	}
	clean := c.mask(text, More)
	c.mask(nil, Last)
	return clean
}

// Result is what a call came to.
type Result struct {
	// Content is for the model: bounded, and masked where Call.Mask was used, so many times as Masks says.
	Content []byte
	Masks   int
	// Failed: the call did not do what was asked.
	Failed bool
	// Unknown: it may have had its effect, and nobody will ever know.
	Unknown bool
	// Answer is for the command that asked for the call, and kept out of the journal.
	Answer []byte
	// Exit is how its command ended. It is nil for a tool that runs none; of an attached one the operation is then over, and its
	// exec_exited says no more.
	Exit *sandbox.Exit
	// Lost: the command's end will never be known.
	Lost *sandbox.LostError
}

func failed(format string, args ...any) Result {
	return Result{Content: fmt.Appendf(nil, format, args...), Failed: true}
}

// Registry is a set of tools. It never changes after it was made.
type Registry struct {
	tools map[string]entry
	names []string
	rules []Rule
}

type entry struct {
	Tool
	schema schema
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// New makes a registry. The rules are asked in their order before a tool's own policy.
func New(rules []Rule, tools ...Tool) (*Registry, error) {
	r := &Registry{tools: map[string]entry{}, rules: rules}
	for _, tool := range tools {
		if !toolName.MatchString(tool.Name) || tool.Run == nil {
			return nil, fmt.Errorf("tool %q has no proper name, or nothing to run", tool.Name)
		}
		if _, twice := r.tools[tool.Name]; twice {
			return nil, fmt.Errorf("there are two tools %q", tool.Name)
		}
		compiled, err := compile(tool.Name, tool.Schema)
		if err != nil {
			return nil, err
		}
		if tool.Class == journalv1.EffectClass_EFFECT_CLASS_UNSPECIFIED {
			tool.Class = journalv1.EffectClass_EFFECT_CLASS_OPAQUE
		}
		if tool.Policy == journalv1.Policy_POLICY_UNSPECIFIED {
			tool.Policy = journalv1.Policy_POLICY_ASK
		}
		r.tools[tool.Name] = entry{Tool: tool, schema: compiled}
		r.names = append(r.names, tool.Name)
	}
	slices.Sort(r.names)
	return r, nil
}

// Tools are all of it, by name: the order in which a model is told must not change by itself.
func (r *Registry) Tools() []Tool {
	all := make([]Tool, 0, len(r.names))
	for _, name := range r.names {
		all = append(all, r.tools[name].Tool)
	}
	return all
}

// Plan is what a call's tool_called says.
type Plan struct {
	Class  journalv1.EffectClass
	Policy journalv1.Policy
}

// Plan decides about a call that a model or a command asks for. One that cannot run, because there is no such tool
// or it does not take such arguments, needs nobody's approval: Run says what is wrong with it.
func (r *Registry) Plan(name string, args json.RawMessage) Plan {
	tool, known := r.tools[name]
	if !known || tool.schema.check(args) != nil {
		return Plan{Class: journalv1.EffectClass_EFFECT_CLASS_PURE, Policy: journalv1.Policy_POLICY_ALLOW}
	}
	return Plan{Class: tool.Class, Policy: r.policy(tool.Tool, args)}
}

// Run runs a call. The arguments are checked here too: a person may have changed them.
func (r *Registry) Run(ctx context.Context, name string, call Call) (Result, error) {
	tool, known := r.tools[name]
	if !known {
		return failed("There is no tool %q. There are: %q.", name, r.names), nil
	}
	if err := tool.schema.check(call.Args); err != nil {
		return failed("The arguments of %s are wrong, nothing was done: %v", name, err), nil
	}
	return tool.Run(ctx, call)
}

// fault sorts an error of a sandbox: what is about the call becomes its result, what keeps the sandbox from
// answering stays an error.
func fault(ctx context.Context, err error) (Result, error) {
	var unavailable *sandbox.UnavailableError
	switch {
	case ctx.Err() != nil, errors.As(err, &unavailable), errors.Is(err, sandbox.ErrFenced):
		return Result{}, err
	}
	return failed("%v", err), nil
}
