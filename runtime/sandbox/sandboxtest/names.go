package sandboxtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// oddNames are names that break who reads listings by line, lets a shell see names, or takes them for text.
// opencoredev/sandbox-sdk#9, bytedance/deer-flow#4980, openai/openai-agents-python#4708, martian56/raven#656,
// OSC/ondemand#2624
var oddNames = []struct{ what, name string }{
	{"a newline", "a\nb"},
	{"a newline at the end", "end\n"},
	{"only a newline", "\n"},
	{"a leading dash", "-n"},
	{"rm's options", "-rf"},
	{"the end of options", "--"},
	{"a trailing space", "trail "},
	{"a leading space", " lead"},
	{"only a space", " "},
	{"single quotes", "it's"},
	{"double quotes", `say "hi"`},
	{"a substitution", "$(touch pwned)"},
	{"backquotes", "`touch pwned`"},
	{"a variable", "$HOME"},
	{"a backslash", `back\slash`},
	{"an escape", `\n`},
	{"a backslash at the end", `end\`},
	{"a star", "*"},
	{"a question mark", "?"},
	{"brackets", "[ab]"},
	{"braces", "{a,b}"},
	{"a tilde", "~"},
	{"a tab", "a\tb"},
	{"a carriage return", "a\rb"},
	{"an escape sequence", "\x1b[31mred"},
	{"a byte that is no UTF-8", "bad\xffname"},
	{"a torn UTF-8 sequence", "torn\xe2\x89"},
	{"UTF-8", "größe-日本"},
	{"a hidden file's dot", ".hidden"},
	{"two dots and more", "..more"},
	{"three dots", "..."},
	{"an arrow of ls", "x -> y"},
	{"a percent sign", "%s%n"},
	{"a semicolon", "a;b"},
	{"an ampersand", "a&b"},
	{"a redirection", "a>b"},
	{"a hash", "#a"},
	{"an exclamation mark", "!a"},
	{"an equals sign", "A=b"},
	{"a digit", "0"},
	{"255 bytes", strings.Repeat("n", 255)},
	{"255 bytes that are no ASCII", strings.Repeat("\xc3\xa9", 127) + "x"},
}

// oddPaths are paths with more than one element; the last element's name comes beside.
var oddPaths = []struct{ what, path, last string }{
	{"a newline before two slashes at the end", "a\nb//", "a\nb"},
	{"two slashes inside", "two//slashes", "slashes"},
	{"a space after a slash", "dir/ x", " x"},
	{"a dash after a slash", "-d/-f", "-f"},
	{"a dot inside", "dot/./x", "x"},
	{"two dots inside", "dotdot/../y", "y"},
}

var namesCases = slices.Concat(oddNameCases(), oddPathCases(), []Case{
	{Name: "all odd names are listed together, sorted by bytes", run: listOddNames},
	{Name: "no shell reads a name", run: noShellReadsNames},
	{Name: "a name of 256 bytes is ENAMETOOLONG", run: nameTooLong},
	{Name: "an empty name is EINVAL", run: func(t *trial) { refusedName(t, "", syscall.EINVAL) }},
	{Name: "a name with a NUL is EINVAL", run: func(t *trial) { refusedName(t, "a\x00b", syscall.EINVAL) }},
	{Name: "a name over 4095 bytes is ENAMETOOLONG", run: func(t *trial) {
		refusedName(t, strings.Repeat("d/", 2048)+"f", syscall.ENAMETOOLONG)
	}},
	{Name: "a path of 4000 bytes is a path", run: longPath},
	{Name: "relative names start at Dir, absolute ones at the root", run: relativeAndAbsolute},
	{Name: "In starts relative names elsewhere", run: inElsewhere},
	{Name: "In asks nobody", run: inAsksNobody},
	{Name: "the end of a context is its cause, on every verb", run: causeOfContext},
})

func oddNameCases() []Case {
	var all []Case
	for _, odd := range oddNames {
		all = append(all, Case{Name: "a name with " + odd.what, run: func(t *trial) { everyVerbTakes(t, odd.name) }})
	}
	return all
}

func oddPathCases() []Case {
	var all []Case
	for _, odd := range oddPaths {
		all = append(all, Case{Name: "a path with " + odd.what, run: func(t *trial) {
			t.sh(`mkdir -- two -d dir dot dotdot "$1"`, "a\nb")
			if odd.path[len(odd.path)-1] != '/' {
				t.put(odd.path, "content")
				t.holds(odd.path, "content")
			}
			t.same("the name", t.stat(odd.path).Name, odd.last)
			t.there(odd.path, true)
			t.ok(t.box.Remove(t.ctx, odd.path, sandbox.RemoveOptions{}))
			t.there(odd.path, false)
		}})
	}
	return all
}

// everyVerbTakes uses one name for a file, a directory, a link, an argument and a working directory.
func everyVerbTakes(t *trial, name string) {
	t.put(name, "content of "+name)
	t.holds(name, "content of "+name)
	t.same("what a command sees", t.sh(`cat < "$1"`, name), "content of "+name)
	t.same("the name that Stat tells", t.stat(name).Name, name)
	t.same("the listing", t.list("."), []string{name})
	t.there(name, true)
	t.ok(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{}))
	t.there(name, false)

	t.ok(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{}))
	t.put(name+"/"+name, "inner")
	t.holds(name+"/"+name, "inner")
	t.same("the inner listing", t.list(name), []string{name})
	t.same("the listing in it", names(t, t.box.In(name)), []string{name})
	r := t.exec(sandbox.Command{Argv: []string{"sh", "-c", `cat < "$1"`, "sh", name}, Dir: name})
	t.same("what a command in it sees", string(r.Stdout), "inner")

	stats, err := t.box.StatMany(t.ctx, []string{name, name + "/" + name})
	t.ok(err)
	t.same("the names that StatMany tells", []string{stats[0].Info.Name, stats[1].Info.Name}, []string{name, name})
	t.ok(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{Recursive: true}))

	t.put("target", "behind")
	t.sh(`ln -s target "./$1"`, name)
	if !t.stat(name).IsSymlink {
		t.Errorf("a link is not told")
	}
	t.holds(name, "behind")
	t.ok(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{}))
	t.same("what is left", t.list("."), []string{"target"})
}

func names(t *trial, box sandbox.Sandbox) []string {
	t.Helper()
	view := *t
	view.box = box
	return view.list(".")
}

func listOddNames(t *trial) {
	want := []string{}
	files := []sandbox.File{}
	for _, odd := range oddNames {
		want = append(want, odd.name)
		files = append(files, sandbox.File{Name: odd.name, Content: []byte(odd.what)})
	}
	errs, err := t.box.WriteFiles(t.ctx, files)
	t.ok(err)
	t.ok(errors.Join(errs...))
	slices.Sort(want)
	t.same("the listing", t.list("."), want)
}

func noShellReadsNames(t *trial) {
	for _, name := range []string{"$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `"; touch pwned; "`, "x\ntouch pwned\n", "| touch pwned", "&& touch pwned"} {
		t.put(name, "x")
		t.stat(name)
		t.list(".")
		_, err := t.box.ReadDir(t.ctx, name)
		t.errno(err, name, syscall.ENOTDIR)
		t.ok(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{}))
		t.same("the exit code in a directory that is missing", t.exec(sandbox.Command{Argv: []string{"true"}, Dir: name}).Code, 125)
	}
	t.same("what is left", t.list("."), []string{})
}

func nameTooLong(t *trial) {
	name := strings.Repeat("n", 256)
	_, err := t.box.Stat(t.ctx, name)
	t.errno(err, name, syscall.ENAMETOOLONG)
	_, err = t.box.ReadFile(t.ctx, name, sandbox.Part{})
	t.errno(err, name, syscall.ENAMETOOLONG)
	t.errno(t.box.WriteFile(t.ctx, name, nil, sandbox.WriteOptions{}), name, syscall.ENAMETOOLONG)
	t.errno(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{}), name, syscall.ENAMETOOLONG)
	t.errno(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{}), name, syscall.ENAMETOOLONG)
	t.same("what is left", t.list("."), []string{})
}

// refusedName holds every verb that takes a name to refuse it.
func refusedName(t *trial, name string, want ...syscall.Errno) {
	_, err := t.box.ReadFile(t.ctx, name, sandbox.Part{})
	t.errno(err, name, want...)
	_, err = t.box.Stat(t.ctx, name)
	t.errno(err, name, want...)
	_, err = t.box.ReadDir(t.ctx, name)
	t.errno(err, name, want...)
	_, err = t.box.Exists(t.ctx, name)
	t.errno(err, name, want...)
	t.errno(t.box.WriteFile(t.ctx, name, []byte("x"), sandbox.WriteOptions{}), name, want...)
	t.errno(t.box.Mkdir(t.ctx, name, sandbox.MkdirOptions{Parents: true}), name, want...)
	t.errno(t.box.Remove(t.ctx, name, sandbox.RemoveOptions{Recursive: true, Force: true}), name, want...)
	t.errno(t.box.ReadTree(t.ctx, name, io.Discard, sandbox.TreeOptions{}), name, want...)
	t.errno(t.box.WriteTree(t.ctx, name, strings.NewReader(""), sandbox.TreeOptions{}), name, want...)
	stats, err := t.box.StatMany(t.ctx, []string{".", name})
	t.ok(err)
	t.ok(stats[0].Err)
	t.errno(stats[1].Err, name, want...)
	t.same("what is left", t.list("."), []string{})
}

func longPath(t *trial) {
	name := strings.Repeat(strings.Repeat("d", 99)+"/", 36) + "f"
	t.put(name, "deep")
	t.holds(name, "deep")
	t.ok(t.box.Remove(t.ctx, strings.Repeat("d", 99), sandbox.RemoveOptions{Recursive: true}))
	t.same("what is left", t.list("."), []string{})
}

func relativeAndAbsolute(t *trial) {
	t.put("f", "x")
	t.holds(t.box.Dir()+"/f", "x")
	t.put(t.box.Dir()+"/sub/g", "y")
	t.holds("sub/g", "y")
	t.same("where commands start", t.sh(`cat f; cat sub/g`), "xy")
	t.same("the name of the root", t.stat("/").Name, "/")
	t.same("whether it is a directory", t.stat("/").IsDir(), true)
	t.same("whether Dir is one", t.stat(".").IsDir(), true)
}

func inElsewhere(t *trial) {
	t.put("sub/deep/f", "x")
	sub := t.box.In("sub")
	t.same("Dir", sub.Dir(), t.box.Dir()+"/sub")
	t.same("Dir of a view on a view", sub.In("deep").Dir(), t.box.Dir()+"/sub/deep")
	t.same("Dir of an absolute view", sub.In("/").Dir(), "/")
	content, err := sub.In("deep").ReadFile(t.ctx, "f", sandbox.Part{})
	t.ok(err)
	t.same("content", string(content), "x")
	r, err := sub.Exec(t.ctx, shell(`cat deep/f; cat f`))
	t.ok(err)
	t.same("what a command sees", string(r.Stdout), "x")
	r, err = sub.Exec(t.ctx, sandbox.Command{Argv: []string{"cat", "f"}, Dir: "deep"})
	t.ok(err)
	t.same("what a command in a relative Dir sees", string(r.Stdout), "x")
	t.same("Dir of the first view", t.list("."), []string{"sub"})

	p := t.start(shell(`echo seen`))
	same, err := sub.Attach(t.ctx, p.ID())
	t.ok(err)
	t.same("the output of a command of the first view", string(t.follow(same, sandbox.Offsets{}).stdout), "seen\n")
}

func inAsksNobody(t *trial) {
	missing := t.box.In("missing")
	_, err := missing.Stat(t.ctx, "f")
	t.errno(err, "f", syscall.ENOENT)
	_, err = missing.ReadDir(t.ctx, ".")
	t.errno(err, ".", syscall.ENOENT)
	r, err := missing.Exec(t.ctx, sandbox.Command{Argv: []string{"true"}})
	t.ok(err)
	t.same("the exit code", r.Code, 125)
	t.there("missing", false)
	t.ok(missing.WriteFile(t.ctx, "f", []byte("x"), sandbox.WriteOptions{}))
	t.holds("missing/f", "x")
}

func causeOfContext(t *trial) {
	t.put("f", "x")
	why := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.ctx)
	cancel(why)
	box := t.box
	for verb, call := range map[string]func() error{
		"ReadFile":   func() error { _, err := box.ReadFile(ctx, "f", sandbox.Part{}); return err },
		"WriteFile":  func() error { return box.WriteFile(ctx, "w", nil, sandbox.WriteOptions{}) },
		"Stat":       func() error { _, err := box.Stat(ctx, "f"); return err },
		"ReadDir":    func() error { _, err := box.ReadDir(ctx, "."); return err },
		"Exists":     func() error { _, err := box.Exists(ctx, "f"); return err },
		"Mkdir":      func() error { return box.Mkdir(ctx, "d", sandbox.MkdirOptions{}) },
		"Remove":     func() error { return box.Remove(ctx, "f", sandbox.RemoveOptions{}) },
		"StatMany":   func() error { _, err := box.StatMany(ctx, []string{"f"}); return err },
		"ReadFiles":  func() error { _, err := box.ReadFiles(ctx, []string{"f"}, 0); return err },
		"WriteFiles": func() error { _, err := box.WriteFiles(ctx, []sandbox.File{{Name: "w"}}); return err },
		"ReadTree":   func() error { return box.ReadTree(ctx, ".", io.Discard, sandbox.TreeOptions{}) },
		"WriteTree":  func() error { return box.WriteTree(ctx, "t", strings.NewReader(""), sandbox.TreeOptions{}) },
		"Exec":       func() error { _, err := box.Exec(ctx, sandbox.Command{Argv: []string{"touch", "e"}}); return err },
		"Start":      func() error { _, err := box.Start(ctx, sandbox.Command{Argv: []string{"touch", "s"}}); return err },
	} {
		if err := call(); !errors.Is(err, why) {
			t.Errorf("%s: got error %v, want the cause of the context", verb, err)
		}
	}
	t.same("what is left", t.list("."), []string{"f"})
}
