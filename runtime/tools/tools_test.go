package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

type bench struct {
	t   *testing.T
	dir string
	box sandbox.Sandbox
	all *tools.Registry
}

func setup(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	box, err := local.Open(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	all, err := tools.New(nil, tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir, box: box, all: all}
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// call is a fresh call with arguments in pairs.
func (b *bench) call(pairs ...any) tools.Call {
	args := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		args[pairs[i].(string)] = pairs[i+1]
	}
	text, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	return tools.Call{Args: text, Box: b.box, ExecID: newID(b.t)}
}

func (b *bench) run(name string, call tools.Call) tools.Result {
	b.t.Helper()
	result, err := b.all.Run(context.Background(), name, call)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// says runs a call that must go well, or not, and compares what the model is told.
func (b *bench) says(failed bool, want, name string, pairs ...any) {
	b.t.Helper()
	result := b.run(name, b.call(pairs...))
	if diff := cmp.Diff(want, string(result.Content)); diff != "" || result.Failed != failed {
		b.t.Errorf("%s %v, failed %t (-want +got):\n%s", name, pairs, result.Failed, diff)
	}
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) holds(name, want string) {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil || string(content) != want {
		b.t.Errorf("%s holds %q, %v", name, content, err)
	}
}

func TestExecTellsOutputAndCode(t *testing.T) {
	b := setup(t)
	b.says(false, "one\ntwo\n[exit code 0]\n", "exec", "command", "echo one; echo two >&2")
	b.says(true, "[exit code 3]\n", "exec", "command", "exit 3")
	b.says(true, "no end\n[exit code 137]\n", "exec", "command", "printf 'no end'; kill -9 $$")
	b.says(true, "[exit code 143, timeout: it ran longer than its time limit]\n", "exec", "command", "while :; do sleep 0.05; done", "timeout_seconds", 1)
}

// THU-MAIC/OpenMAIC#1493, Autumn-27/ARTEX#112: output need not be text.
func TestOutputThatIsNoTextIsKept(t *testing.T) {
	setup(t).says(false, "a\x00b\xed\xa0\x80\xff\n[exit code 0]\n", "exec", "command", `printf 'a\000b\355\240\200\377'`)
}

// existential-birds/amelia#427: what a model is told is bounded.
func TestLongOutputIsShownByItsEnds(t *testing.T) {
	b := setup(t)
	result := b.run("exec", b.call("command", "seq 1 100000"))
	content := string(result.Content)
	if len(content) > tools.HeadBytes+tools.TailBytes+100 || !strings.HasPrefix(content, "1\n2\n") || !strings.HasSuffix(content, "99999\n100000\n[exit code 0]\n") || !strings.Contains(content, " bytes left out]\n") {
		t.Errorf("%d bytes: %.40q … %q", len(content), content, content[len(content)-40:])
	}
	if result.Exit.Ends.Stdout != 588895 {
		t.Errorf("the end is %d", result.Exit.Ends.Stdout)
	}
}

func TestCharactersAreNotCut(t *testing.T) {
	var c tools.Cap
	for range 20_000 {
		_, _ = c.Write([]byte("€"))
	}
	if content := c.Bytes(); bytes.ContainsRune(content, '\uFFFD') || len(strings.Trim(string(content), "€")) > 40 {
		t.Errorf("cut: %q", strings.Trim(string(content), "€"))
	}
}

// A new owner asks for the command by its id: it is not run again, the model is told the same, and who watches
// gets what he has not had.
func TestResumedCommandRunsOnce(t *testing.T) {
	b := setup(t)
	call := b.call("command", "echo run >> count; echo output")
	first := b.run("exec", call)
	var seen []byte
	call.Resumed, call.From = true, sandbox.Offsets{Stdout: 3}
	call.Output = func(out sandbox.Output) error {
		if out.Offset != 3+int64(len(seen)) {
			t.Errorf("output at %d", out.Offset)
		}
		seen = append(seen, out.Data...)
		return nil
	}
	again := b.run("exec", call)
	if string(again.Content) != string(first.Content) || string(seen) != "put\n" {
		t.Errorf("told %q, then %q; watched %q", first.Content, again.Content, seen)
	}
	b.holds("count", "run\n")
}

func TestCommandOfAnotherLifeIsLost(t *testing.T) {
	b := setup(t)
	call := b.call("command", "echo run >> count")
	call.Epoch, call.Resumed = "another", true
	result := b.run("exec", call)
	if result.Lost == nil || !result.Failed || !strings.Contains(string(result.Content), "lost") {
		t.Errorf("result %+v", result)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "count")); err == nil {
		t.Error("it was run")
	}
}

func TestEndOfTheContextIsNoResult(t *testing.T) {
	b := setup(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, name := range []string{"exec", "read", "write", "edit", "list", "glob", "grep"} {
		call := b.call("path", "f", "content", "", "old", "a", "new", "b", "pattern", "x", "command", "true")
		call.Args = only(call.Args, b.all, name)
		if _, err := b.all.Run(ctx, name, call); err == nil {
			t.Errorf("%s returns a result", name)
		}
	}
}

// only keeps the arguments that the tool takes.
func only(args json.RawMessage, all *tools.Registry, name string) json.RawMessage {
	var values map[string]any
	_ = json.Unmarshal(args, &values)
	for _, tool := range all.Tools() {
		var schema struct{ Properties map[string]any }
		_ = json.Unmarshal(tool.Schema, &schema)
		if tool.Name != name {
			continue
		}
		for key := range values {
			if schema.Properties[key] == nil {
				delete(values, key)
			}
		}
	}
	text, _ := json.Marshal(values)
	return text
}

func TestWriteIsDoneOnce(t *testing.T) {
	b := setup(t)
	call := b.call("path", "d/f", "content", "first")
	if got := string(b.run("write", call).Content); got != "Wrote 5 bytes to d/f." {
		t.Errorf("told %q", got)
	}
	b.put("d/f", "another's")
	call.Resumed = true
	b.run("write", call)
	b.holds("d/f", "another's")
	b.put("file", "")
	if !b.run("write", b.call("path", "file/x", "content", "")).Failed {
		t.Error("a file was made below a file")
	}
}

func TestEditNeedsTheOldTextExactlyOnce(t *testing.T) {
	b := setup(t)
	b.put("f", "one two two\r\n\x00\xff")
	b.says(true, "Nothing was changed: the old text is in f 2 times. Give more of what is around it, or say all.", "edit", "path", "f", "old", "two", "new", "2")
	b.says(true, "Nothing was changed: the old text is not in f. It must match byte for byte, blanks and line ends too; read the file again.", "edit", "path", "f", "old", "two\n", "new", "2")
	b.says(true, "Nothing was changed: the old text and the new one are the same.", "edit", "path", "f", "old", "one", "new", "one")
	b.holds("f", "one two two\r\n\x00\xff")
	b.says(false, "Edited f.", "edit", "path", "f", "old", "one", "new", "1")
	b.says(false, "Edited f.", "edit", "path", "f", "old", "two", "new", "", "all", true)
	b.holds("f", "1  \r\n\x00\xff")
	if !b.run("edit", b.call("path", "missing", "old", "a", "new", "b")).Failed {
		t.Error("a missing file was edited")
	}
}

// The owner died before or after the write; the next one finds the file as it is then.
func TestResumedEditIsDoneOnce(t *testing.T) {
	for name, c := range map[string]struct{ before, old, new, after string }{
		"the old text is gone":        {"a b", "b", "c", "a c"},
		"the new text holds the old":  {"a b", "b", "bb", "a bb"},
		"once more would fit as well": {"x x", "x x", "x x x", "x x x"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.put("f", c.before)
			call := b.call("path", "f", "old", c.old, "new", c.new)
			for range 3 {
				if result := b.run("edit", call); result.Failed {
					t.Fatalf("told %q", result.Content)
				}
				b.holds("f", c.after)
				call.Resumed = true
			}
		})
	}
	t.Run("never begun", func(t *testing.T) {
		b := setup(t)
		b.put("f", "a b")
		call := b.call("path", "f", "old", "b", "new", "c")
		call.Resumed = true
		b.run("edit", call)
		b.holds("f", "a c")
	})
	t.Run("never begun, and wrong", func(t *testing.T) {
		b := setup(t)
		b.put("f", "a")
		call := b.call("path", "f", "old", "b", "new", "c")
		call.Resumed = true
		if result := b.run("edit", call); !result.Failed {
			t.Errorf("told %q", result.Content)
		}
	})
	t.Run("the file was removed since", func(t *testing.T) {
		b := setup(t)
		b.put("f", "a b")
		call := b.call("path", "f", "old", "b", "new", "c")
		b.run("edit", call)
		if err := os.Remove(filepath.Join(b.dir, "f")); err != nil {
			t.Fatal(err)
		}
		call.Resumed = true
		if result := b.run("edit", call); result.Failed {
			t.Errorf("told %q", result.Content)
		}
	})
}

func TestReadShowsLines(t *testing.T) {
	b := setup(t)
	b.put("f", "one\ntwo\nthree\nfour")
	b.put("empty", "")
	b.put("binary", "MZ\x00\x01")
	b.says(false, "one\ntwo\nthree\nfour", "read", "path", "f")
	b.says(false, "two\nthree\n\n[the file goes on; line 4 is next]\n", "read", "path", "f", "line", 2, "lines", 2)
	b.says(false, "four", "read", "path", "f", "line", 4, "lines", 1)
	b.says(false, "[f has 3 lines]", "read", "path", "f", "line", 9)
	b.says(false, "[the file is empty]", "read", "path", "empty")
	b.says(false, "[a binary file of 4 bytes; look at it with exec]", "read", "path", "binary")
	b.put("large", strings.Repeat("0123456789abcde\n", 200_000))
	b.says(false, "0123456789abcde\n\n[the file goes on; line 150001 is next]\n", "read", "path", "large", "line", 150_000, "lines", 1)
	if result := b.run("read", b.call("path", "missing")); !result.Failed {
		t.Errorf("told %q", result.Content)
	}
}

func TestListShowsKindsAndSizes(t *testing.T) {
	b := setup(t)
	b.put("d/x", "")
	b.put("f", "12345")
	b.put("a\nb", "")
	b.put("\xff", "")
	if err := os.Symlink("nowhere", filepath.Join(b.dir, "l")); err != nil {
		t.Fatal(err)
	}
	b.says(false, "\"a\\nb\"  0\nd/\nf  5\nl@\n\"\\xff\"  0\n", "list")
	b.says(false, "x  0\n", "list", "path", "d")
}
