package tools_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// hiding masks values as the driver does.
func hiding(values ...string) func(raw []byte, then tools.Then) tools.Clean {
	stream := secrets.NewRedactor(values...).Stream()
	return func(raw []byte, then tools.Then) tools.Clean {
		chunk := stream.Write(raw)
		var rest secrets.Chunk
		switch then {
		case tools.Last:
			rest, stream = stream.Close(), secrets.NewRedactor(values...).Stream()
		case tools.Gap:
			rest, stream = stream.Cut(), secrets.NewRedactor(values...).AfterGap(0)
		case tools.More:
		}
		return tools.Clean{Data: append(chunk.Data, rest.Data...), Raw: chunk.RawLen + rest.RawLen, Masks: chunk.Masks + rest.Masks}
	}
}

// A secret that lies over a cut is hidden on both sides of it, wherever a result is cut: by its size, by its lines, by the length of
// a line.
func TestSecretOnACutIsHidden(t *testing.T) {
	const (
		secret = "first-half-of-it/second-half-of-it"
		pair   = "first-half-of-it\nsecond-half-of-it"
	)
	fill := strings.Repeat("a", 195) + "\n"
	key := "-----BEGIN PRIVATE KEY-----\nfirst-half-of-it\nsecond-half-of-it\n-----END PRIVATE KEY-----\n"
	cases := map[string]struct {
		tool string
		args []any
		// name of the file, and what is in it.
		name, content string
		// beside is how many other files there are.
		beside int
		want   string
	}{
		"read, the head is full": {
			tool: "read", args: []any{"path", "f"}, content: strings.Repeat("a", tools.HeadBytes-10) + secret + strings.Repeat("b", 100_000), want: "bytes left out",
		},
		"read, the tail begins": {
			tool: "read", args: []any{"path", "f"}, content: strings.Repeat("a", 100_000) + secret + strings.Repeat("b", tools.TailBytes-10), want: "bytes left out",
		},
		"read, the last line": {
			tool: "read", args: []any{"path", "f", "lines", 2}, content: "one\n" + pair + "\nend\n", want: "one\n[secret]\nend\n\n[the file goes on; line 3 is next]\n",
		},
		"read, the first line": {
			tool: "read", args: []any{"path", "f", "line", 3}, content: "one\n" + pair + "\nend\n", want: "[secret]\nend\n",
		},
		"read, lines of a key": {
			tool: "read", args: []any{"path", "f", "line", 3, "lines", 1}, content: key + "end\n", want: "[secret]\nend\n\n[the file goes on; line 4 is next]\n",
		},
		"read, a piece of the file ends": {
			tool: "read", args: []any{"path", "f", "line", 1<<19 - 100}, content: strings.Repeat("a\n", 1<<19-8) + secret + "\n" + "end\n", want: "a\n[secret]\nend",
		},
		"grep, a long line": {
			tool: "grep", args: []any{"pattern", "a"}, content: strings.Repeat("a", 485) + secret + "\n", want: "[secret]",
		},
		"grep, the head is full": {
			tool: "grep", args: []any{"pattern", "a"}, content: strings.Repeat(fill, 49) + strings.Repeat("a", 140) + secret + "\n" + strings.Repeat(fill, 140),
			want: "bytes left out",
		},
		"grep, its output is cut off": {
			tool: "grep", args: []any{"pattern", "a"}, content: strings.Repeat("a", 1<<20-25) + "\naa" + secret + "\n", want: "f:2:aa",
		},
		"glob, the head is full": {
			tool: "glob", args: []any{"pattern", "**"}, name: "049" + strings.Repeat("e", 138) + "/" + secret + "/x", beside: 200, want: "bytes left out",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			if c.name == "" {
				c.name = "f"
			}
			b.put(c.name, c.content)
			for i := range c.beside {
				b.put(fmt.Sprintf("%03d%s", i, strings.Repeat("f", 197)), "")
			}
			call := b.call(c.args...)
			call.Mask = hiding(secret, pair)
			result := b.run(c.tool, call)
			got := string(result.Content)
			for half := range strings.FieldsFuncSeq(secret, func(r rune) bool { return r == '/' }) {
				for n := 6; n <= len(half); n++ {
					if strings.Contains(got, half[:n]) || strings.Contains(got, half[len(half)-n:]) {
						t.Fatalf("%q of the secret is told: %.60q … %q", half[:n], got, got[max(0, len(got)-60):])
					}
				}
			}
			if result.Failed || !strings.Contains(got, c.want) || strings.HasSuffix(c.want, "\n") && got != c.want {
				t.Errorf("told was %.200q, failed %t", got, result.Failed)
			}
			if strings.Contains(got, secrets.Mask) != (result.Masks > 0) {
				t.Errorf("%d masks are counted", result.Masks)
			}
		})
	}
}

// torn is a computer whose commands' output has a gap, and at last is lost.
type torn struct{ sandbox.Sandbox }

// Start is Commands'.
func (b torn) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := b.Sandbox.Start(ctx, c)
	return tornProcess{p}, err
}

type tornProcess struct{ sandbox.Process }

// Follow is Process's.
func (p tornProcess) Follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	if exit, err := p.Process.Follow(ctx, from, func(sandbox.Output) error { return nil }); err != nil {
		return exit, err
	}
	for _, o := range []sandbox.Output{
		{Data: []byte("one first-ha")}, {Offset: 12, Missing: 30}, {Offset: 42, Data: []byte("second-half two first-")},
	} {
		o.Stream = sandbox.Stdout
		if err := take(o); err != nil {
			return sandbox.Exit{}, err
		}
	}
	return sandbox.Exit{}, &sandbox.LostError{Reason: "restarted"}
}

// A secret that lies over a gap in a command's output, or over its loss, is hidden on both sides.
func TestSecretOverAGapIsHidden(t *testing.T) {
	b := setup(t)
	call := b.call("command", "true")
	call.Box, call.Mask = torn{b.box}, hiding("first-half-and-the-second-half")
	result := b.run("exec", call)
	const want = "one [secret]\n[30 bytes are kept nowhere]\n[secret] two [secret]\n[lost: "
	if got := string(result.Content); !strings.HasPrefix(got, want) || result.Masks != 3 {
		t.Errorf("told was %q, with %d masks", got, result.Masks)
	}
}

// What is masked does not change which lines are told.
func TestLinesAreCountedAsTheFileHasThem(t *testing.T) {
	b := setup(t)
	var content, want strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&content, "line %d sk-%d\n", i+1, i)
		if i+1 >= 40_000 && i+1 < 40_010 {
			fmt.Fprintf(&want, "line %d sk-%d\n", i+1, i)
		}
	}
	b.put("f", content.String())
	call := b.call("path", "f", "line", 40_000, "lines", 10)
	call.Mask = hiding("line 39999 sk-39998\nline 4")
	got := string(b.run("read", call).Content)
	if !strings.HasPrefix(got, "[secret]0000 sk-39999\nline 40001 ") || !strings.HasSuffix(got, "line 40009 sk-40008\n\n[the file goes on; line 40010 is next]\n") {
		t.Errorf("over a secret: %q", got)
	}
	call.Mask = hiding("nothing-of-it")
	if got := string(b.run("read", call).Content); got != want.String()+"\n[the file goes on; line 40010 is next]\n" {
		t.Errorf("without a secret: %q", got)
	}
}
