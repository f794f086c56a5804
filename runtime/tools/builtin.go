package tools

import (
	"encoding/json"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// Builtin are the tools that work on the session's sandbox: exec, read, write, edit, list, grep, glob. What changes
// something is attached: it is an operation of the machine under the call's ExecID, done once whoever dies.
func Builtin() []Tool {
	const (
		pure     = journalv1.EffectClass_EFFECT_CLASS_PURE
		attached = journalv1.EffectClass_EFFECT_CLASS_ATTACHED
		allow    = journalv1.Policy_POLICY_ALLOW
	)
	return []Tool{
		{
			Name: "exec", Class: attached, Policy: allow, Run: runExec,
			Description: "Run a command with sh in the workspace, and see its output, stdout and stderr together, and its exit code. Long output is shown by its beginning and its end.",
			Schema: object(`"command": {"type": "string", "minLength": 1, "description": "for sh -c"},
				"dir": {"type": "string", "description": "where it starts, relative to the workspace"},
				"timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 86400, "description": "it is ended after so long; 600 if not given"}`, "command"),
		},
		{
			Name: "read", Class: pure, Policy: allow, Run: runRead,
			Description: "Read a text file. Lines are counted from 1.",
			Schema: object(`"path": {"type": "string", "minLength": 1},
				"line": {"type": "integer", "minimum": 1, "description": "the first line"},
				"lines": {"type": "integer", "minimum": 1, "maximum": 100000, "description": "how many"}`, "path"),
		},
		{
			Name: "write", Class: attached, Policy: allow, Run: runWrite,
			Description: "Write a file whole. Missing directories are made.",
			Schema:      object(`"path": {"type": "string", "minLength": 1}, "content": {"type": "string"}`, "path", "content"),
		},
		{
			Name: "edit", Class: attached, Policy: allow, Run: runEdit,
			Description: "Replace a text in a file. The old text must be in the file exactly once, byte for byte; give enough around it to make it so.",
			Schema: object(`"path": {"type": "string", "minLength": 1}, "old": {"type": "string", "minLength": 1}, "new": {"type": "string"},
				"all": {"type": "boolean", "description": "replace it wherever it is, once or more"}`, "path", "old", "new"),
		},
		{
			Name: "list", Class: pure, Policy: allow, Run: runList,
			Description: "List a directory: a line an entry, a slash after directories, the size after files.",
			Schema:      object(`"path": {"type": "string", "description": "the workspace if not given"}`),
		},
		{
			Name: "glob", Class: pure, Policy: allow, Run: runGlob,
			Description: "Find files by name: * and ? within a name, ** over directories, {a,b}. Hidden files are found, .git is left out.",
			Schema:      object(`"pattern": {"type": "string", "minLength": 1}, "path": {"type": "string", "description": "where to begin"}`, "pattern"),
		},
		{
			Name: "grep", Class: pure, Policy: allow, Run: runGrep,
			Description: "Find lines in files by a POSIX extended regular expression; answers file:line:text. .git is left out.",
			Schema: object(`"pattern": {"type": "string", "minLength": 1}, "path": {"type": "string", "description": "a file, or where to begin"},
				"include": {"type": "string", "description": "names of files, such as *.go"}, "ignore_case": {"type": "boolean"}`, "pattern"),
		},
	}
}

// object is a schema of an object that has no other members.
func object(properties string, required ...string) json.RawMessage {
	names, _ := json.Marshal(required)
	if required == nil {
		names = []byte("[]")
	}
	return fmt.Appendf(nil, `{"type": "object", "properties": {%s}, "required": %s, "additionalProperties": false}`, properties, names)
}

// arguments reads what the schema has accepted.
func arguments[T any](call Call) (T, error) {
	var args T
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return args, fmt.Errorf("read the arguments: %w", err)
	}
	return args, nil
}
