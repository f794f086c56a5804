package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	// unattended ends a script whose caller died.
	unattended = time.Minute
	// mostArguments bounds the arguments of one script, below what any kernel takes.
	mostArguments = 96 << 10
	// mostListing is room for the names of some million files.
	mostListing = 256 << 20
)

// there is the end on a machine.
type there struct {
	box sandbox.Sandbox // its Dir is the directory
	tag string
	// ran is told the id of each command that has ended.
	ran func(id string)
}

// scriptError is a script that did not end well.
type scriptError struct {
	code int
	said string
}

func (e *scriptError) Error() string { return e.said }

// run runs a script in the directory and returns what it printed.
func (t *there) run(ctx context.Context, script string, stdin []byte, most int64, args ...string) (sandbox.Result, error) {
	r, err := t.box.Exec(ctx, sandbox.Command{
		Argv: append([]string{"sh", "-c", script, "flyfleet"}, args...), Env: []string{"LC_ALL=C"}, Stdin: stdin,
		Unattended: unattended, MaxOutput: most,
	})
	if t.ran != nil && r.ID != "" {
		t.ran(r.ID)
	}
	switch {
	case err != nil:
		return r, err
	case r.Cause != sandbox.CauseExited:
		return r, fmt.Errorf("the machine: %s", strings.TrimSpace(string(r.Cause)+" "+r.Message))
	case r.Code != 0:
		said := firstLine(r.Stderr)
		if said == "" {
			said = fmt.Sprintf("a script ended with %d", r.Code)
		}
		return r, &scriptError{code: r.Code, said: "the machine: " + said}
	}
	return r, nil
}

// firstLine of what a tool said, without what a terminal would act on.
func firstLine(said []byte) string {
	first, _, _ := bytes.Cut(bytes.TrimSpace(said), []byte("\n"))
	line := strings.ToValidUTF8(string(first), "?")
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
}

// spell makes a name one that no program takes for an option.
func spell(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return "./" + name
}

func (t *there) list(ctx context.Context, failed func(string, error)) ([]entry, error) {
	r, err := t.run(ctx, listScript, nil, mostListing)
	var script *scriptError
	switch {
	case errors.As(err, &script):
		failed(".", err) // find goes on behind what it cannot read
	case err != nil:
		return nil, err
	}
	if r.Truncated() && int64(len(r.Stdout)) < r.Ends.Stdout {
		return nil, errors.New("the tree has too many names for one copy; copy parts of it")
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(r.Stdout), "\x00"), "\x00") {
		if name != "." {
			name = strings.TrimPrefix(name, "./")
		}
		// Nothing is asked about names that no honest listing has.
		if err := checkEntry(entry{name: name}); err != nil && !errors.Is(err, errPart) {
			failed(name, err)
			continue
		}
		names = append(names, name)
	}
	slices.SortFunc(names, byPath)
	found, err := t.look(ctx, names)
	if err != nil {
		return nil, err
	}
	// What vanished since is no part of the tree.
	return slices.DeleteFunc(found, func(e entry) bool { return e.kind == absent }), nil
}

// byPath sorts parents before what they hold, "." first.
func byPath(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == ".":
		return -1
	case b == ".":
		return 1
	}
	return strings.Compare(a, b)
}

func (t *there) look(ctx context.Context, names []string) ([]entry, error) {
	stated, err := t.box.StatMany(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make([]entry, len(names))
	var links []int
	if len(stated) != len(names) {
		return nil, errors.New("the machine: a torn answer about files")
	}
	for i, name := range names {
		s := stated[i]
		out[i].name = name
		if s.Err != nil {
			if !gone(s.Err) {
				return nil, s.Err
			}
			continue
		}
		info := s.Info
		out[i].kind, out[i].size, out[i].mode, out[i].modified = kindOf(info.Mode), info.Size, info.Mode.Perm(), second(info.Modified)
		if info.IsSymlink && name != "." {
			out[i].kind = link
			links = append(links, i)
		}
	}
	return out, t.follow(ctx, out, links)
}

// follow finds where links lead.
func (t *there) follow(ctx context.Context, entries []entry, links []int) error {
	for len(links) > 0 {
		n, args := take(len(links), func(i int) []string { return []string{spell(entries[links[i]].name)} })
		r, err := t.run(ctx, linksScript, nil, mostListing, args...)
		if err != nil {
			return err
		}
		targets := strings.Split(string(r.Stdout), "\x00")
		if len(targets) != n+1 {
			return errors.New("the machine: a torn answer about links")
		}
		for i, target := range targets[:n] {
			entries[links[i]].target = target
		}
		links = links[n:]
	}
	return nil
}

// take gathers the arguments of the first n of count items that fit into one script, one at least.
func take(count int, arguments func(i int) []string) (n int, args []string) {
	for size := 0; n < count; n++ {
		add := arguments(n)
		for _, a := range add {
			size += len(a) + 9
		}
		if n > 0 && size > mostArguments {
			break
		}
		args = append(args, add...)
	}
	return n, args
}

func (t *there) readMany(ctx context.Context, entries []entry) ([]content, error) {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	read, err := t.box.ReadFiles(ctx, names, 0)
	if err != nil {
		return nil, err
	}
	out := make([]content, len(entries))
	for i, r := range read {
		out[i] = content{entry: entries[i], data: r.Content, err: bare(r.Err)}
	}
	return out, nil
}

// bare is an error without the name, which whoever tells it adds.
func bare(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return wrong.Err
	}
	return err
}

func (t *there) read(ctx context.Context, name string, offset, limit int64) ([]byte, error) {
	return t.box.ReadFile(ctx, name, sandbox.Part{Offset: offset, Limit: limit})
}

func (t *there) hash(ctx context.Context, entries []entry) ([]string, error) {
	var out []string
	for len(out) < len(entries) {
		rest := entries[len(out):]
		n, args := take(len(rest), func(i int) []string { return []string{strconv.FormatInt(rest[i].size, 10), spell(rest[i].name)} })
		r, err := t.run(ctx, hashScript, nil, mostListing, args...)
		if err != nil {
			return nil, err
		}
		sums := strings.Fields(string(r.Stdout))
		if len(sums) != n {
			return nil, errors.New("the machine: a torn answer about hashes")
		}
		for _, sum := range sums {
			out = append(out, strings.TrimPrefix(sum, "-"))
		}
	}
	return out, nil
}

// parentOf is the directory of a name.
func parentOf(name string) string { return path.Dir(name) }
