package remote_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
)

// onBoth runs a test on a machine of each userland, in a directory of its own.
func onBoth(t *testing.T, run func(t *testing.T, m *machine, s *remote.Sandbox)) {
	t.Helper()
	for _, u := range []userland{coreutils, busybox} {
		t.Run(string(u), func(t *testing.T) {
			m := boot(t, u)
			run(t, m, m.box(t, remote.Options{Dir: m.fresh(t, "/workspace")}))
		})
	}
}

func sh(t *testing.T, s sandbox.Sandbox, script string) string {
	t.Helper()
	r, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", script}})
	if err != nil || r.Code != 0 {
		t.Fatalf("%s: %v, %d: %s", script, err, r.Code, r.Stderr)
	}
	return string(r.Stdout)
}

type member struct {
	tar.Header
	content string
}

func archive(t *testing.T, members ...member) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		if m.Typeflag == 0 {
			m.Typeflag = tar.TypeReg
		}
		m.Size = int64(len(m.content))
		if m.Mode == 0 {
			m.Mode = 0o644
		}
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func members(t *testing.T, stream []byte) map[string]member {
	t.Helper()
	all := map[string]member{}
	for r := tar.NewReader(bytes.NewReader(stream)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(h.Name, "/")] = member{*h, string(content)}
	}
}

func treeFailures(t *testing.T, err error) map[string]error {
	t.Helper()
	var tree *sandbox.TreeError
	if !errors.As(err, &tree) {
		t.Fatalf("got %v, want a TreeError", err)
	}
	out := map[string]error{}
	for _, f := range tree.Failed {
		var path *fs.PathError
		if !errors.As(f, &path) {
			t.Fatalf("%v is no PathError", f)
		}
		out[path.Path] = path.Err
	}
	return out
}

func TestTreesGoBothWays(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		big := strings.Repeat("0123456789abcdef", 9<<20/16) + "tail"
		when := time.Unix(1600000000, 0)
		var in []member
		in = append(in, member{Header: tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o555}})
		for _, name := range []string{"plain", "a\nb", "end\n", "-n", "d/" + strings.Repeat("n", 255), "torn\xe2\x89", "größe", strings.Repeat("long/", 60) + "f", "sp ace", "$(x)"} {
			in = append(in, member{Header: tar.Header{Name: name, Mode: 0o640, ModTime: when}, content: "content of " + name})
		}
		for i := range 700 {
			in = append(in, member{Header: tar.Header{Name: fmt.Sprintf("many/%03d", i), ModTime: when}, content: strings.Repeat("x", i*10)})
		}
		in = append(in,
			member{Header: tar.Header{Name: "big", Mode: 0o4755, ModTime: when}, content: big},
			member{Header: tar.Header{Name: "empty", ModTime: when}},
			member{Header: tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../anywhere"}},
			member{Header: tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "plain"}},
			member{Header: tar.Header{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o600}},
		)
		last := int64(0)
		if err := s.WriteTree(t.Context(), "new/tree", archive(t, in...), sandbox.TreeOptions{Progress: func(n int64) { last = n }}); err != nil {
			t.Fatal(err)
		}
		if last == 0 {
			t.Error("no progress was told")
		}
		if mode := sh(t, s, "stat -c %a new/tree/d new/tree/big"); mode != "555\n755\n" {
			t.Errorf("modes: %q", mode)
		}
		var out bytes.Buffer
		if err := s.ReadTree(t.Context(), "new/tree", &out, sandbox.TreeOptions{Progress: func(n int64) { last = n }}); err != nil {
			t.Fatal(err)
		}
		if last != int64(out.Len()) {
			t.Errorf("progress ended at %d of %d", last, out.Len())
		}
		got := members(t, out.Bytes())
		for _, m := range in {
			name := strings.TrimSuffix(m.Name, "/")
			g, there := got[name]
			switch {
			case !there:
				t.Errorf("%q is missing", name)
			case name == "hard":
				continue
			case g.Typeflag != m.Typeflag && m.Typeflag != 0:
				t.Errorf("%q has type %c", name, g.Typeflag)
			case g.content != m.content || g.Linkname != m.Linkname:
				t.Errorf("%q has other content (%d bytes, %d wanted)", name, len(g.content), len(m.content))
			case m.content != "" && !g.ModTime.Equal(when):
				t.Errorf("%q has time %v", name, g.ModTime)
			}
		}
		if _, there := got["."]; !there {
			t.Error("the directory itself is missing")
		}
		var one bytes.Buffer
		if err := s.ReadTree(t.Context(), "new/tree/plain", &one, sandbox.TreeOptions{}); err != nil {
			t.Fatal(err)
		}
		if g := members(t, one.Bytes()); len(g) != 1 || g["plain"].content != "content of plain" {
			t.Errorf("one file: %v", g)
		}
		sh(t, s, "chmod 755 new/tree/d")
	})
}

// daytonaio/daytona#2602-like inputs of hostile archives: names and links that lead outside.
func TestHostileTreesAreRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		sh(t, s, "mkdir outside t t/full && echo safe > outside/f && ln -s ../outside t/there && echo old > t/file && touch t/full/x && ln -s ../outside/f t/flink && ln t/file keep")
		stream := archive(t,
			member{Header: tar.Header{Name: "../outside/f"}, content: "evil"},
			member{Header: tar.Header{Name: "/etc/evil"}, content: "evil"},
			member{Header: tar.Header{Name: "there/f"}, content: "evil"},
			member{Header: tar.Header{Name: "there", Typeflag: tar.TypeDir, Mode: 0o777}},
			member{Header: tar.Header{Name: "own", Typeflag: tar.TypeSymlink, Linkname: "../outside"}},
			member{Header: tar.Header{Name: "own/f"}, content: "evil"},
			member{Header: tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../outside/f"}},
			member{Header: tar.Header{Name: "hard2", Typeflag: tar.TypeLink, Linkname: "there/f"}},
			member{Header: tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
			member{Header: tar.Header{Name: "full"}, content: "over a directory"},
			member{Header: tar.Header{Name: "file/below"}, content: "below a file"},
			member{Header: tar.Header{Name: "big/../there/big"}, content: strings.Repeat("x", 2<<20)},
			member{Header: tar.Header{Name: "there/large"}, content: strings.Repeat("x", 2<<20)},
			member{Header: tar.Header{Name: "inner", Typeflag: tar.TypeSymlink, Linkname: "fine"}},
			member{Header: tar.Header{Name: "fine/", Typeflag: tar.TypeDir, Mode: 0o700}},
			member{Header: tar.Header{Name: "inner/through"}, content: "inside"},
			member{Header: tar.Header{Name: "file"}, content: "new"},
			member{Header: tar.Header{Name: "flink"}, content: "mine"},
			member{Header: tar.Header{Name: "fine/too"}, content: "fine"},
		)
		failed := treeFailures(t, s.WriteTree(t.Context(), "t", stream, sandbox.TreeOptions{}))
		for name, want := range map[string]error{
			"../outside/f": syscall.EINVAL, "/etc/evil": syscall.EINVAL, "there/f": syscall.EINVAL, "there": syscall.EEXIST,
			"own/f": syscall.EINVAL, "hard": syscall.EINVAL, "hard2": syscall.EINVAL, "null": syscall.EINVAL,
			"full": syscall.EISDIR, "file/below": syscall.ENOTDIR, "big/../there/big": syscall.EINVAL, "there/large": syscall.EINVAL,
		} {
			if !errors.Is(failed[name], want) {
				t.Errorf("%s: got %v, want %v", name, failed[name], want)
			}
			delete(failed, name)
		}
		if len(failed) > 0 {
			t.Errorf("also failed: %v", failed)
		}
		if got := sh(t, s, "cat outside/f t/file t/flink t/fine/too t/fine/through keep; [ ! -L t/flink ] && ls outside"); got != "safe\nnewminefineinsideold\nf\n" {
			t.Errorf("after it: %q", got)
		}
	})
}

func TestATreeTellsWhatCannotBeRead(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		sh(t, s, "mkdir -p t/shut/in t/open && echo a > t/a && echo s > t/secret && chmod 0 t/secret t/shut && echo z > t/z && head -c 3000000 /dev/zero > t/bigsecret && chmod 0 t/bigsecret")
		defer sh(t, s, "chmod 755 t/shut")
		var out bytes.Buffer
		failed := treeFailures(t, s.ReadTree(t.Context(), "t", &out, sandbox.TreeOptions{}))
		for _, name := range []string{"secret", "shut", "bigsecret"} {
			if !errors.Is(failed[name], syscall.EACCES) {
				t.Errorf("%s: %v", name, failed[name])
			}
		}
		got := members(t, out.Bytes())
		if got["a"].content != "a\n" || got["z"].content != "z\n" || len(failed) != 3 {
			t.Errorf("got %d entries; failed: %v", len(got), failed)
		}
	})
}

func TestATreeOnAFullDiskTellsWhatDidNotFit(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine, _ *remote.Sandbox) {
		if !m.small {
			t.Log("not run: only root may mount a small file system")
			return
		}
		s := m.box(t, remote.Options{Dir: m.fresh(t, "/small")})
		var in []member
		for i := range 40 {
			in = append(in, member{Header: tar.Header{Name: fmt.Sprintf("f%02d", i)}, content: strings.Repeat(string(rune('a'+i%26)), 900<<10)})
		}
		in = append(in, member{Header: tar.Header{Name: "large"}, content: strings.Repeat("L", 2<<20)})
		failed := treeFailures(t, s.WriteTree(t.Context(), "t", archive(t, in...), sandbox.TreeOptions{}))
		for name, err := range failed {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v", name, err)
			}
		}
		infos, err := s.ReadDir(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		if len(infos)+len(failed) != len(in) || len(failed) == 0 || len(infos) == 0 {
			t.Errorf("%d entries, %d failed, of %d", len(infos), len(failed), len(in))
		}
		for _, i := range infos {
			if strings.HasPrefix(i.Name, ".flyfleet") {
				t.Errorf("left behind: %s", i.Name)
			}
		}
	})
}

func TestReadFilesTellsEachByItself(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		sh(t, s, `mkdir d; mkfifo p; printf 12345 > f; : > e; ln -s f l; ln -s no dangling; printf x > no-no; chmod 0 no-no; printf %s "= ok" > "9 bytes"; head -c 3000000 /dev/zero | tr "\\0" z > big`)
		names := []string{"f", "missing", "d", "big", "e", "p", "l", "dangling", "no-no", "9 bytes", "f", "/etc/passwd", "f/x", ""}
		got, err := s.ReadFiles(t.Context(), names, 0)
		if err != nil {
			t.Fatal(err)
		}
		want := []error{nil, syscall.ENOENT, syscall.EISDIR, nil, nil, syscall.EINVAL, nil, syscall.ENOENT, syscall.EACCES, nil, nil, nil, syscall.ENOTDIR, syscall.EINVAL}
		for i, name := range names {
			if !errors.Is(got[i].Err, want[i]) {
				t.Errorf("%q: %v", name, got[i].Err)
			}
		}
		if string(got[0].Content) != "12345" || len(got[3].Content) != 3000000 || string(got[6].Content) != "12345" || string(got[9].Content) != "= ok" || len(got[11].Content) == 0 {
			t.Errorf("contents: %q %d %q %q", got[0].Content, len(got[3].Content), got[6].Content, got[9].Content)
		}
		if got, err = s.ReadFiles(t.Context(), []string{"f", "big", "e"}, 3); err != nil || string(got[0].Content) != "123" || string(got[1].Content) != "zzz" {
			t.Errorf("with a limit: %v %v", got, err)
		}
	})
}

func TestAnOperationThatIsRepeatedReturnsItsFirstAnswer(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine, s *remote.Sandbox) {
		other := m.box(t, remote.Options{Dir: s.Dir()})
		sh(t, s, "head -c 9000000 /dev/zero > big; echo 1 > f")
		for what, call := range map[string]func(s sandbox.Sandbox) string{
			"mkdir": func(s sandbox.Sandbox) string { return fmt.Sprint(s.Mkdir(t.Context(), "d", sandbox.MkdirOptions{})) },
			"stat":  func(s sandbox.Sandbox) string { i, err := s.Stat(t.Context(), "f"); return fmt.Sprint(i.Size, err) },
			"large read": func(s sandbox.Sandbox) string {
				b, err := s.ReadFile(t.Context(), "big", sandbox.Part{})
				return fmt.Sprint(len(b), err)
			},
			"large write": func(s sandbox.Sandbox) string {
				return fmt.Sprint(s.WriteFile(t.Context(), "w", bytes.Repeat([]byte("w"), 5<<20), sandbox.WriteOptions{}))
			},
			"tree": func(s sandbox.Sandbox) string {
				return fmt.Sprint(s.WriteTree(t.Context(), "t", archive(t, member{Header: tar.Header{Name: "x"}, content: strings.Repeat("y", 2<<20)}), sandbox.TreeOptions{}))
			},
		} {
			id := newID(t)
			first := call(s.Once(id))
			sh(t, s, "rm -rf d t w; truncate -s 100 big; echo longer > f")
			if again := call(other.Once(id)); again != first {
				t.Errorf("%s: first %s, then %s", what, first, again)
			}
			if got := sh(t, s, "ls"); got != "big\nf\n" {
				t.Errorf("%s: the repeat changed something: %q", what, got)
			}
			if err := other.Once(id).Remove(t.Context(), "f", sandbox.RemoveOptions{}); !errors.Is(err, sandbox.ErrConflict) {
				t.Errorf("%s: another call under its id: %v", what, err)
			}
			sh(t, s, "head -c 9000000 /dev/zero > big; echo 1 > f")
		}
	})
}

func TestNoWriterStaysBehindWhenItsCallerIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *machine, s *remote.Sandbox) {
		r, w := io.Pipe()
		defer func() { _ = r.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.WriteTree(ctx, "t", r, sandbox.TreeOptions{}) }()
		head := tar.NewWriter(w)
		if err := head.WriteHeader(&tar.Header{Name: "f", Size: 8 << 20, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := head.Write(make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		soon(t, "a file is being written", func() bool { return strings.Contains(sh(t, s, "ls -A t 2>/dev/null || true"), ".flyfleet") })
		cancel()
		_ = w.Close()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		soon(t, "nothing is left", func() bool { return sh(t, s, "ls -A t") == "" })
	})
}

// A script that is killed cannot clean up after itself.
func TestAKilledWriteLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, m *machine, s *remote.Sandbox) {
		sh(t, s, "mkdir t; echo old > t/f")
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.WriteTree(t.Context(), "t", r, sandbox.TreeOptions{}) }()
		head := tar.NewWriter(w)
		if err := head.WriteHeader(&tar.Header{Name: "f", Size: 8 << 20, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := head.Write(make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
		soon(t, "a file is being written", func() bool { return strings.Contains(sh(t, s, "ls -A t"), ".flyfleet") })
		m.root(t, `for d in /proc/[0-9]*; do case "$(tr '\0' ' ' <"$d/cmdline" 2>/dev/null)" in "sh -c "*"place""() {"*) kill -9 "${d#/proc/}" ;; esac; done; exit 0`)
		var unavailable *sandbox.UnavailableError
		if err := <-done; !errors.As(err, &unavailable) || unavailable.Refused {
			t.Errorf("got %v", err)
		}
		_ = w.Close()
		if got := sh(t, s, "ls -A t; cat t/f"); got != "f\nold\n" {
			t.Errorf("after it: %q", got)
		}
	})
}
