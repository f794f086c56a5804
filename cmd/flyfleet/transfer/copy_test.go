package transfer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/transfer"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
)

// pair is a directory here and a machine that is another directory of this computer.
type pair struct {
	here, there string
	box         sandbox.Sandbox
}

func open(t *testing.T) pair {
	t.Helper()
	p := pair{here: t.TempDir(), there: t.TempDir()}
	box, err := local.Open(local.Options{Dir: p.there})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	p.box = box
	return p
}

func (p pair) copy(ctx context.Context, from, to string) (transfer.Report, error) {
	c := transfer.Copy{From: p.place(from), To: p.place(to), Machine: p.box, Stdin: strings.NewReader("streamed"), Stdout: &bytes.Buffer{}}
	return c.Run(ctx)
}

// place puts paths of this computer below the pair's directory.
func (p pair) place(text string) transfer.Place {
	at := transfer.ParsePlace(text)
	if at.App == "" && !at.Stream {
		at.Path = p.here + "/" + at.Path
	}
	return at
}

func (p pair) good(t *testing.T, from, to string) transfer.Report {
	t.Helper()
	r, err := p.copy(t.Context(), from, to)
	if err != nil {
		t.Fatalf("%s to %s: %v (%+v)", from, to, err, r.Failed)
	}
	return r
}

var when = time.Unix(1_600_000_000, 0)

// write makes a file with its parents.
func write(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.WriteFile(name, content, 0o600), os.Chmod(name, mode), os.Chtimes(name, when, when)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func random(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// snapshot is all of a tree that a copy keeps: type, mode, time of files and directories, content or target.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		text := info.Mode().String() + " "
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			out[rel] = "-> " + target
			return err
		case info.Mode().IsRegular():
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += string(content)
		}
		out[rel] = text + info.ModTime().Truncate(time.Second).UTC().String()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, a, b string) {
	t.Helper()
	left, right := snapshot(t, a), snapshot(t, b)
	for name, want := range left {
		if got := right[name]; got != want {
			t.Errorf("%q is %q, not %q", name, tail(got), tail(want))
		}
	}
	for name := range right {
		if _, known := left[name]; !known {
			t.Errorf("%q is too much", name)
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-60):] }

// oddNames are those that break who reads lines, trims, or decodes text.
var oddNames = []string{
	"a b", " leading", "trailing ", "new\nline", "tab\t", "-rf", "--", "*", "$(touch x)", "quote'\"", "back\\slash", "\xff\xfe", "é", "e\u0301",
	"\x1b[31m", "a:b", "~", "#", ".hidden", "..dots", strings.Repeat("n", 255),
}

func tree(t *testing.T, root string) {
	t.Helper()
	for i, name := range oddNames {
		write(t, filepath.Join(root, name), []byte(name), 0o640)
		write(t, filepath.Join(root, "odd", name, name), bytes.Repeat([]byte{byte(i)}, i*1000), 0o600)
	}
	write(t, filepath.Join(root, "bin", "tool"), []byte("#!/bin/sh\n"), 0o755)
	write(t, filepath.Join(root, "big"), random(t, 5<<20+12345), 0o444)
	write(t, filepath.Join(root, "empty"), nil, 0o644)
	for _, target := range []string{"big", "/etc/passwd", "../outside", "no\nwhere", "odd"} {
		if err := os.Symlink(target, filepath.Join(root, "link to "+strings.ReplaceAll(target, "/", "_"))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"shut", "odd", "bin", "."} {
		name = filepath.Join(root, name)
		mode := fs.FileMode(0o750)
		if filepath.Base(name) == "shut" {
			mode = 0o555
		}
		if err := errors.Join(os.MkdirAll(name, 0o755), os.Chmod(name, mode), os.Chtimes(name, when, when)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTreeKeepsNamesModesTimesAndLinksBothWays(t *testing.T) {
	p := open(t)
	tree(t, p.here+"/src")
	up := p.good(t, "src", "app:up")
	same(t, p.here+"/src", p.there+"/up")
	p.good(t, "app:up", "down")
	same(t, p.here+"/src", p.here+"/down")
	again := p.good(t, "src", "app:up")
	if again.Files != 0 || again.Links != 0 || again.Bytes != 0 || again.Kept != up.Files+up.Links {
		t.Errorf("again: %+v after %+v: nothing was to be sent", again, up)
	}
	again = p.good(t, "app:up", "down")
	if again.Files != 0 || again.Bytes != 0 {
		t.Errorf("back again: %+v: nothing was to be sent", again)
	}
	same(t, p.here+"/src", p.there+"/up")
	same(t, p.here+"/src", p.here+"/down")
}

func TestWhatADestinationMeansDoesNotDependOnWhatIsThere(t *testing.T) {
	for _, c := range []struct{ from, to, at string }{
		{"src", "app:dst", "dst/f"},
		{"src/", "app:dst", "dst/f"},
		{"src", "app:dst/", "dst/src/f"},
		{"src", "app:", "src/f"},
		{"src", "app:.", "src/f"},
		{"src/.", "app:dst", "dst/f"},
		{"src/.", "app:.", "f"},
		{"src/f", "app:dst", "dst/f"},
		{"src/f", "app:dst/", "dst/f"},
		{"src/f", "app:g", "g"},
	} {
		t.Run(c.from+" "+c.to, func(t *testing.T) {
			p := open(t)
			write(t, p.here+"/src/f", []byte("content"), 0o644)
			if strings.HasPrefix(c.to, "app:dst") && strings.HasPrefix(c.at, "dst/") && (strings.HasSuffix(c.to, "/") || c.from == "src/f") {
				if err := os.Mkdir(p.there+"/dst", 0o755); err != nil {
					t.Fatal(err)
				}
			}
			p.good(t, c.from, c.to)
			once := snapshot(t, p.there)
			if _, ok := once[c.at]; !ok {
				t.Fatalf("%s is missing in %v", c.at, once)
			}
			p.good(t, c.from, c.to)
			if twice := snapshot(t, p.there); len(twice) != len(once) {
				t.Errorf("run again it made something else: %v, then %v", once, twice)
			}
		})
	}
}

func TestLargeFileGoesOnBehindWhatIsProven(t *testing.T) {
	const size, had = 12 << 20, 9<<20 + 777
	for name, c := range map[string]struct {
		from, to string
		source   func(p pair) string
		target   func(p pair) string
	}{
		"up":   {"f", "app:f", func(p pair) string { return p.here }, func(p pair) string { return p.there }},
		"down": {"app:f", "f", func(p pair) string { return p.there }, func(p pair) string { return p.here }},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			content := random(t, size)
			write(t, c.source(p)+"/f", content, 0o640)
			part := partAfterACut(t, p, c.from, c.to, c.target(p))
			for _, b := range []struct {
				name    string
				part    []byte
				resumed int64
			}{
				{"a true beginning", content[:had], had / (64 << 10) * (64 << 10)},
				{"all of it", content, size},
				{"one wrong byte", append([]byte{content[0] ^ 1}, content[1:had]...), 0},
				{"too much", append(append([]byte{}, content...), 'x'), 0},
			} {
				_ = os.Remove(c.target(p) + "/f")
				write(t, part, b.part, 0o600)
				r := p.good(t, c.from, c.to)
				if r.Resumed != b.resumed || r.Bytes != size-b.resumed {
					t.Errorf("%s: %d were taken over and %d sent, not %d and %d", b.name, r.Resumed, r.Bytes, b.resumed, size-b.resumed)
				}
				same(t, c.source(p)+"/f", c.target(p)+"/f")
			}
		})
	}
}

// partAfterACut cuts a copy at its first bytes, sees that nothing has the final name, and returns the part's.
func partAfterACut(t *testing.T, p pair, from, to, target string) string {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cut := errors.New("cut")
	c := transfer.Copy{From: p.place(from), To: p.place(to), Machine: p.box, Tell: func(done, _ int64) {
		if done > 0 {
			cancel(cut)
		}
	}}
	if _, err := c.Run(ctx); !errors.Is(err, cut) {
		t.Fatalf("the copy was cut and ended with %v", err)
	}
	left, err := filepath.Glob(target + "/.flyfleet-part-*")
	all, _ := os.ReadDir(target)
	if err != nil || len(left) != 1 || len(all) != 1 {
		t.Fatalf("after a cut there are %v, not one part", all)
	}
	return left[0]
}

func TestSourceThatChangesGetsNoFinalName(t *testing.T) {
	p := open(t)
	write(t, p.here+"/f", random(t, 20<<20), 0o644)
	first := true
	c := transfer.Copy{From: p.place("f"), To: p.place("app:f"), Machine: p.box, Tell: func(done, _ int64) {
		if done > 0 && first {
			first = false
			write(t, p.here+"/f", random(t, 20<<20), 0o644)
		}
	}}
	_, err := c.Run(t.Context())
	if _, statErr := os.Stat(p.there + "/f"); err == nil || !errors.Is(statErr, fs.ErrNotExist) {
		t.Errorf("a mixture of two contents was finished: %v, %v", err, statErr)
	}
	p.good(t, "f", "app:f")
	same(t, p.here+"/f", p.there+"/f")
}

func TestEqualContentOfAnotherTimeIsNotSent(t *testing.T) {
	p := open(t)
	write(t, p.here+"/src/f", []byte("same"), 0o600)
	write(t, p.here+"/src/g", []byte("new!"), 0o600)
	p.good(t, "src", "app:dst")
	later := when.Add(time.Hour)
	if err := errors.Join(os.Chtimes(p.there+"/dst/f", later, later), os.Chmod(p.there+"/dst/f", 0o777),
		os.WriteFile(p.there+"/dst/g", []byte("old!"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := p.good(t, "src", "app:dst")
	if r.Files != 1 || r.Bytes != 4 || r.Kept != 1 {
		t.Errorf("%+v: one file was to be sent, one touched", r)
	}
	same(t, p.here+"/src", p.there+"/dst")
}

func TestLinksInTheTargetLeadNowhere(t *testing.T) {
	for name, to := range map[string]string{"up": "app:dst", "down": "dst"} {
		t.Run(name, func(t *testing.T) {
			p := open(t)
			outside := t.TempDir()
			from, source, target := "src", p.here, p.there
			if name == "down" {
				from, source, target = "app:src", p.there, p.here
			}
			write(t, source+"/src/sub/f", []byte("f"), 0o644)
			if err := errors.Join(os.Mkdir(target+"/dst", 0o755), os.Symlink(outside, target+"/dst/sub")); err != nil {
				t.Fatal(err)
			}
			_, err := p.copy(t.Context(), from, to)
			if left, _ := os.ReadDir(outside); err == nil || len(left) > 0 {
				t.Errorf("%v was written outside; error %v", left, err)
			}
		})
	}
}

// hostile answers a listing with names of its own.
type hostile struct {
	sandbox.Sandbox

	names string
}

func (h hostile) In(dir string) sandbox.Sandbox { return hostile{h.Sandbox.In(dir), h.names} }

func (h hostile) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	r, err := h.Sandbox.Exec(ctx, c)
	if strings.Contains(strings.Join(c.Argv, " "), "find . -print0") {
		r.Stdout = []byte(h.names)
		r.Ends.Stdout = int64(len(r.Stdout))
	}
	return r, err
}

func TestHostileListingWritesNothingOutside(t *testing.T) {
	p := open(t)
	write(t, p.there+"/victim", []byte("bad"), 0o644)
	write(t, p.there+"/src/good", []byte("good"), 0o644)
	write(t, p.here+"/victim", []byte("mine"), 0o644)
	names := []string{".", "./good", "./../victim", "../victim", p.there + "/victim", "./a/../../victim", "./good/../good", "./", "./..", "./good//x"}
	p.box = hostile{p.box, strings.Join(names, "\x00") + "\x00"}
	r, err := p.copy(t.Context(), "app:src", "dst")
	if err == nil || len(r.Failed) == 0 {
		t.Errorf("nothing was refused: %v, %+v", err, r)
	}
	if got, _ := os.ReadFile(p.here + "/victim"); string(got) != "mine" {
		t.Errorf("a file outside is %q now", got)
	}
	if got, _ := os.ReadFile(p.here + "/dst/good"); string(got) != "good" {
		t.Errorf("the good file is %q", got)
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	p := open(t)
	write(t, p.here+"/f", []byte("f"), 0o644)
	write(t, p.here+"/d/f", []byte("f"), 0o644)
	write(t, p.there+"/f", []byte("f"), 0o644)
	write(t, p.there+"/d/d/x", []byte("f"), 0o644)
	if err := syscall.Mkfifo(p.there+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{"no", "app:x", "no: no such file"},
		{"app:no", "x", "app:no: no such file"},
		{"app:f", "no/x", "no such file"},
		{"f", "app:no/x", "app:no/: no such file"},
		{"f", "app:f/x", "not a directory"},
		{"d", "app:f", "app:f: not a directory"},
		{"app:d", "f", "not a directory"},
		{"app:fifo", "x", "no file, directory or link"},
		{"-", "app:d", "app:d: is a directory"},
		{"app:d", "-", "app:d: is a directory"},
		{"-", "app:d/", "needs a file's name"},
		{"f", "g", "neither place is on a machine"},
		{"app:f", "app2:g", "on this computer"},
	} {
		_, err := p.copy(t.Context(), c.from, c.to)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v; want %q", c.from, c.to, err, c.says)
		}
	}
	// A directory in a file's place, inside a tree: the others are copied.
	write(t, p.here+"/t/a", []byte("a"), 0o644)
	write(t, p.there+"/t/b/x", []byte("x"), 0o644)
	write(t, p.here+"/t/b", []byte("b"), 0o644)
	r, err := p.copy(t.Context(), "t", "app:t")
	if err == nil || !strings.Contains(err.Error(), "is a directory") || r.Files != 1 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestStreamsOfOneFile(t *testing.T) {
	p := open(t)
	content := random(t, 9<<20+1)
	var out bytes.Buffer
	for _, c := range []transfer.Copy{
		{From: p.place("-"), To: p.place("app:f"), Stdin: bytes.NewReader(content)},
		{From: p.place("app:f"), To: p.place("-"), Stdout: &out},
	} {
		c.Machine = p.box
		if r, err := c.Run(t.Context()); err != nil || r.Bytes != int64(len(content)) {
			t.Fatal(err, r)
		}
	}
	if !bytes.Equal(out.Bytes(), content) {
		t.Error("the bytes differ")
	}
	broken := errors.New("broken")
	c := transfer.Copy{From: p.place("-"), To: p.place("app:g"), Stdin: &failing{content, broken}, Machine: p.box}
	if _, err := c.Run(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(p.there); len(left) != 1 {
		t.Errorf("a broken stream left %v", left)
	}
}

type failing struct {
	rest []byte
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, f.err
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
