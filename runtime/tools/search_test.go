package tools_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// userland is a sandbox in whose commands other programs are found first.
type userland struct {
	sandbox.Sandbox
	path string
}

func (u userland) Exec(ctx context.Context, command sandbox.Command) (sandbox.Result, error) {
	command.Env = append(command.Env, "PATH="+u.path)
	command.Argv[0] = filepath.Join(u.path, filepath.Base(command.Argv[0]))
	return u.Sandbox.Exec(ctx, command)
}

// userlands are the programs of GNU and of busybox, each alone in a PATH.
func userlands(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"gnu": filepath.Join(dir, "gnu"), "busybox": filepath.Join(dir, "busybox")}
	box, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("busybox is missing: apt-get install busybox")
	}
	for name, path := range all {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range []string{"sh", "find", "xargs", "grep", "head"} {
			target := box
			if name == "gnu" {
				if target, err = exec.LookPath(program); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(target, filepath.Join(path, program)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

func TestSearchIsTheSameOnGNUAndBusybox(t *testing.T) {
	for name, path := range userlands(t) {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.box = userland{Sandbox: b.box, path: path}
			b.put("a.go", "package a\nfunc A() {}\n")
			b.put("d/b.go", "package d\n// Func\nfunc B() {}\n")
			b.put("d/e/c.txt", "func\n")
			b.put(".git/config", "func\n")
			b.put("-e", "func dash\n")
			b.put("with space/é.md", "ünïcode func\n")
			b.put("line\nend.txt", "x\n")
			b.put("bin", "\x00\xfffunc\xff\n")
			b.put("-dash/g.go", "func g\n")
			b.searches()
		})
	}
}

func (b *bench) searches() {
	b.says(false, "-dash/g.go\na.go\nd/b.go\n", "glob", "pattern", "**/*.go")
	b.says(false, "-dash/g.go\n", "glob", "pattern", "*", "path", "-dash")
	b.says(false, "-dash/g.go:1:func g\n", "grep", "pattern", "func", "path", "-dash")
	b.says(false, "bin:1:\x00\xfffunc\xff\n", "grep", "pattern", "func", "include", "bin")
	b.says(false, "a.go\n", "glob", "pattern", "*.go")
	b.says(false, "d/b.go\nd/e/c.txt\n", "glob", "pattern", "**/*.{go,txt}", "path", "d")
	b.says(false, "\"line\\nend.txt\"\n", "glob", "pattern", "line*")
	b.says(false, "-e\n", "glob", "pattern", "-?")
	b.says(false, "[nothing matches]", "glob", "pattern", "*.rs")
	b.says(true, `The pattern "[" is malformed.`, "glob", "pattern", "[")

	b.says(false, "d/b.go:3:func B() {}\n", "grep", "pattern", `^func B\(`)
	b.says(false, "a.go:2:func A() {}\n", "grep", "pattern", "^func A", "path", "a.go")
	b.says(false, "d/e/c.txt:1:func\n", "grep", "pattern", "func", "include", "c.*")
	b.says(false, "d/b.go:2:// Func\n", "grep", "pattern", "// (F|G)unc")
	b.says(false, "d/b.go:2:// Func\n", "grep", "pattern", "// func", "ignore_case", true)
	b.says(false, "-e:1:func dash\n", "grep", "pattern", "func dash")
	b.says(false, "with space/é.md:1:ünïcode func\n", "grep", "pattern", "ünï")
	b.says(false, "[no line matches]", "grep", "pattern", "-v")
	b.says(false, "[no line matches]", "grep", "pattern", "nothing like it")
	for _, broken := range [][]any{{"pattern", "(", "path", "d"}, {"pattern", "x", "path", "missing"}, {"pattern", "x", "path", "-delete"}} {
		if result := b.run("grep", b.call(broken...)); !result.Failed {
			b.t.Errorf("grep %v: %q", broken, result.Content)
		}
	}
	if result := b.run("glob", b.call("pattern", "*", "path", "missing")); !result.Failed {
		b.t.Errorf("glob in a missing directory: %q", result.Content)
	}
	b.holds("a.go", "package a\nfunc A() {}\n")
}

func TestSearchIsBounded(t *testing.T) {
	b := setup(t)
	b.put("many", strings.Repeat("hit\n", 5000))
	b.put("long", "needle"+strings.Repeat("€", 5000)+"\n")
	if lines := strings.Count(string(b.run("grep", b.call("pattern", "hit")).Content), "\n"); lines != 201 {
		t.Errorf("%d lines are told", lines)
	}
	if got := b.run("grep", b.call("pattern", "needle")).Content; len(got) > 600 || !strings.HasSuffix(string(got), "€…\n") {
		t.Errorf("a long line is told with %d bytes: %q", len(got), got[max(0, len(got)-20):])
	}
}
