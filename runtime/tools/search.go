package tools

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	searchTimeout = 2 * time.Minute
	// globNames is how many bytes of names are looked through, and globMost how many are told.
	globNames = 16 << 20
	globMost  = 500
	// grepMost is how many lines are told.
	grepMost = 200
)

// The scripts use only what busybox and GNU have alike: nothing of a caller's is in their text.
const (
	// Arguments: where to begin.
	findScript = `exec find "$1" -name .git -prune -o \( -type f -o -type l \) -print0`
	// Arguments: where to begin, the names, the expression, the options, how many lines. -a makes GNU treat files as
	// busybox always does. grep is given two files at least, so that it always names them.
	grepScript = `find "$1" -name .git -prune -o -type f -name "$2" -print0 | xargs -0 -r grep -a -n -E $4 -e "$3" -- /dev/null | head -n "$5"`
)

func script(text string, most int64, args ...string) sandbox.Command {
	return sandbox.Command{
		Argv: append([]string{"/bin/sh", "-c", text, "sh"}, args...), Env: []string{"LC_ALL=C"},
		Timeout: searchTimeout, Unattended: searchTimeout, MaxOutput: most,
	}
}

// start is where a search begins: never an option of find.
func start(where string) string {
	if where == "" {
		return "."
	}
	where = path.Clean(where)
	if strings.HasPrefix(where, "/") || where == "." || strings.HasPrefix(where, "..") {
		return where
	}
	return "./" + where
}

func runGlob(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	if !doublestar.ValidatePattern(args.Pattern) {
		return failed("The pattern %q is malformed.", args.Pattern), nil
	}
	root := start(args.Path)
	found, err := call.Box.Exec(ctx, script(findScript, globNames, root))
	if err != nil {
		return fault(ctx, err)
	}
	if len(found.Stdout) == 0 && found.Code != 0 {
		return failed("%s", capped(call.masked(found.Stderr, true).Data)), nil
	}
	if found.Truncated() {
		// The last name may be half a one.
		found.Stdout = found.Stdout[:bytes.LastIndexByte(found.Stdout, 0)+1]
	}
	var names []string
	for _, name := range strings.Split(strings.TrimSuffix(string(found.Stdout), "\x00"), "\x00") {
		name = strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		if ok, _ := doublestar.Match(args.Pattern, name); ok && name != "" {
			names = append(names, path.Join(args.Path, name))
		}
	}
	slices.Sort(names)
	return globbed(call, names, found.Truncated()), nil
}

func globbed(call Call, names []string, truncated bool) Result {
	if len(names) == 0 && !truncated {
		return Result{Content: []byte("[nothing matches]")}
	}
	var out []byte
	for _, name := range names[:min(len(names), globMost)] {
		out = append(append(out, shown(name)...), '\n')
	}
	if len(names) > globMost {
		out = fmt.Appendf(out, "[and %d more]\n", len(names)-globMost)
	}
	if truncated {
		out = append(out, "[there are too many files to look through all: begin deeper]\n"...)
	}
	return call.cut(out)
}

// cut is a whole result, masked and then bounded.
func (c Call) cut(whole []byte) Result {
	clean := c.masked(whole, false)
	return Result{Content: capped(clean.Data), Masks: clean.Masks}
}

func runGrep(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Pattern    string `json:"pattern"`
		Path       string `json:"path"`
		Include    string `json:"include"`
		IgnoreCase bool   `json:"ignore_case"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	include, options := "*", ""
	if args.Include != "" {
		include = args.Include
	}
	if args.IgnoreCase {
		options = "-i"
	}
	found, err := call.Box.Exec(ctx, script(grepScript, 1<<20, start(args.Path), include, args.Pattern, options, fmt.Sprint(grepMost+1)))
	if err != nil {
		return fault(ctx, err)
	}
	if len(found.Stdout) == 0 {
		if complaint := bytes.TrimSpace(found.Stderr); len(complaint) > 0 {
			return failed("%s", capped(call.masked(complaint, true).Data)), nil
		}
		return Result{Content: []byte("[no line matches]")}, nil
	}
	clean := call.masked(found.Stdout, found.Truncated())
	return Result{Content: grepped(clean.Data, bytes.Count(found.Stdout, []byte("\n")) > grepMost), Masks: clean.Masks}, nil
}

// lineMost is how much of one line is told: there are files of one line.
const lineMost = 500

// grepped are lines that were masked; more: there are lines that are not told.
func grepped(stdout []byte, more bool) []byte {
	var out []byte
	all := bytes.Split(bytes.TrimSuffix(stdout, []byte("\n")), []byte("\n"))
	for _, line := range all[:min(len(all), grepMost)] {
		if len(line) > lineMost {
			line = append(wholeEnd(line[:lineMost:lineMost]), "…"...)
		}
		out = append(append(out, bytes.TrimPrefix(line, []byte("./"))...), '\n')
	}
	if more {
		out = append(out, "[there are more: narrow the search]\n"...)
	}
	return capped(out)
}
