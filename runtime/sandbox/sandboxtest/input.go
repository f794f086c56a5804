package sandboxtest

import (
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var inputCases = []Case{
	{Name: "Write feeds a command until eof", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"cat"}, Interactive: true})
		pieces, exits := t.watch(p)
		t.ok(p.Write(t.ctx, 0, []byte("one\n"), false))
		t.same("the answer", await(t, "an answer", pieces), "one\n")
		t.ok(p.Write(t.ctx, 4, []byte(allBytes()), true))
		rest := ""
		for piece := range pieces {
			rest += piece
		}
		t.same("the rest", rest, allBytes())
		t.same("code", await(t, "the end", exits).Code, 0)
	}},
	{Name: "bytes that arrived before are not sent again", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"cat"}, Interactive: true})
		for range 3 {
			t.ok(p.Write(t.ctx, 0, []byte("abc"), false))
		}
		t.ok(p.Write(t.ctx, 0, []byte("abcdef"), false))
		t.ok(p.Write(t.ctx, 2, []byte("cd"), false))
		t.ok(p.Write(t.ctx, 5, []byte("fgh"), true))
		t.ok(p.Write(t.ctx, 5, []byte("fgh"), true))
		t.same("what arrived", string(t.follow(p, offsets0).stdout), "abcdefgh")
	}},
	{Name: "bytes beyond what arrived are refused and not sent", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"cat"}, Interactive: true})
		t.ok(p.Write(t.ctx, 0, []byte("abc"), false))
		if err := p.Write(t.ctx, 4, []byte("efg"), false); err == nil {
			t.Errorf("a gap in the input was accepted")
		}
		t.ok(p.Write(t.ctx, 3, nil, true))
		t.same("what arrived", string(t.follow(p, offsets0).stdout), "abc")
	}},
	{Name: "eof alone closes stdin", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"cat"}, Interactive: true})
		t.ok(p.Write(t.ctx, 0, nil, true))
		t.same("code", t.follow(p, offsets0).exit.Code, 0)
	}},
	// yegor256/jaxec#168
	{Name: "megabytes go through a command while it answers", run: func(t *trial) {
		content := numbered(5_000_000)
		p := t.start(sandbox.Command{Argv: []string{"cat"}, Interactive: true})
		wrote := make(chan error, 1)
		go func() {
			var err error
			for at := 0; at < len(content) && err == nil; at += 700_000 {
				end := min(at+700_000, len(content))
				err = p.Write(t.ctx, int64(at), []byte(content[at:end]), end == len(content))
			}
			wrote <- err
		}()
		t.same("what came back", t.follow(p, offsets0).stdout, []byte(content))
		t.ok(await(t, "the last write", wrote))
	}},
	{Name: "writing to a command that has ended is no error", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"true"}, Interactive: true})
		t.follow(p, offsets0)
		t.ok(p.Write(t.ctx, 0, []byte("x"), false))
		t.ok(p.Write(t.ctx, 1, make([]byte, 1<<20), true))
	}},
	{Name: "writing to a command without an open stdin is an error", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`cat go`))
		if err := p.Write(t.ctx, 0, []byte("x"), false); err == nil {
			t.Errorf("a command without an open stdin took input")
		}
		t.release("go")
		t.same("stdout", string(t.follow(p, offsets0).stdout), "go\n")
	}},
	// superradcompany/microsandbox#1549
	{Name: "an open stdin that is never closed holds no end up", run: func(t *trial) {
		p := t.start(sandbox.Command{Argv: []string{"echo", "hi"}, Interactive: true})
		t.same("stdout", string(t.follow(p, offsets0).stdout), "hi\n")
	}},
}

var terminalCases = []Case{
	{Name: "a terminal has its size, and TERM", run: func(t *trial) {
		c := shell(`stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo terminal; [ -n "$TERM" ] && echo named`)
		c.Terminal = &sandbox.Size{Cols: 123, Rows: 45}
		t.same("stdout", terminalText(t, t.start(c)), "45 123\nterminal\nnamed\n")
	}},
	{Name: "both outputs of a terminal are stdout", run: func(t *trial) {
		c := shell(`echo out; echo err >&2; exit 5`)
		c.Terminal = &sandbox.Size{Cols: 80, Rows: 24}
		f := t.follow(t.start(c), offsets0)
		t.same("stdout", strings.ReplaceAll(string(f.stdout), "\r", ""), "out\nerr\n")
		t.same("stderr", string(f.stderr), "")
		t.same("code", f.exit.Code, 5)
	}},
	// cri-o/cri-o#8483, open-webui/open-terminal#145
	{Name: "the last words on a terminal are never lost", run: func(t *trial) {
		for range 20 {
			c := shell(`echo mytext; printf last`)
			c.Terminal = &sandbox.Size{Cols: 80, Rows: 24}
			t.same("stdout", terminalText(t, t.start(c)), "mytext\nlast")
		}
	}},
	{Name: "long output of a terminal arrives whole", run: func(t *trial) {
		t.put("text", strings.Repeat("123456789\n", 30_000))
		c := shell(`stty -opost; cat text`)
		c.Terminal = &sandbox.Size{Cols: 80, Rows: 24}
		t.same("the length", len(t.follow(t.start(c), offsets0).stdout), 300_000)
	}},
	{Name: "Resize changes the size", run: func(t *trial) {
		t.fifo("go")
		c := shell(`cat go > /dev/null; stty size`)
		c.Terminal = &sandbox.Size{Cols: 80, Rows: 24}
		p := t.start(c)
		t.ok(p.Resize(t.ctx, sandbox.Size{Cols: 200, Rows: 50}))
		t.release("go")
		t.same("stdout", terminalText(t, p), "50 200\n")
		t.ok(p.Resize(t.ctx, sandbox.Size{Cols: 10, Rows: 10}))
	}},
	{Name: "Resize of what has no terminal is an error", run: func(t *trial) {
		p := t.start(shell(`:`))
		if err := p.Resize(t.ctx, sandbox.Size{Cols: 80, Rows: 24}); err == nil {
			t.Errorf("a command without a terminal was resized")
		}
	}},
	{Name: "what is typed arrives, and eof is the terminal's", run: func(t *trial) {
		c := shell(`stty -echo; echo ready; cat; echo end`)
		c.Terminal, c.Interactive = &sandbox.Size{Cols: 80, Rows: 24}, true
		p := t.start(c)
		pieces, exits := t.watch(p)
		said := ""
		for !strings.Contains(said, "ready") {
			said += await(t, "the command to be ready", pieces)
		}
		t.ok(p.Write(t.ctx, 0, []byte("typed\n"), false))
		t.ok(p.Write(t.ctx, 6, nil, true))
		for piece := range pieces {
			said += piece
		}
		t.same("stdout", strings.ReplaceAll(said, "\r", ""), "ready\ntyped\nend\n")
		t.same("code", await(t, "the end", exits).Code, 0)
	}},
	{Name: "an interrupt typed is an interrupt", run: func(t *trial) {
		c := shell(`trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 1; done`)
		c.Terminal, c.Interactive = &sandbox.Size{Cols: 80, Rows: 24}, true
		p := t.start(c)
		pieces, exits := t.watch(p)
		said := ""
		for !strings.Contains(said, "ready") {
			said += await(t, "the command to be ready", pieces)
		}
		t.ok(p.Write(t.ctx, 0, []byte{3}, false))
		t.same("code", await(t, "the end", exits).Code, 7)
	}},
}

// terminalText is all output, without the carriage returns that a terminal adds.
func terminalText(t *trial, p sandbox.Process) string {
	t.Helper()
	return strings.ReplaceAll(string(t.follow(p, offsets0).stdout), "\r\n", "\n")
}
