package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var followCases = []Case{
	{Name: "output comes while the command runs", run: liveOutput},
	{Name: "Follow ends with the exit after all output", run: func(t *trial) {
		p := t.start(shell(`cat > /dev/null; echo out; echo err >&2; exit 6`))
		f := t.follow(p, offsets0)
		t.same("stdout", string(f.stdout), "out\n")
		t.same("stderr", string(f.stderr), "err\n")
		t.same("exit", f.exit, sandbox.Exit{ID: p.ID(), Code: 6, Cause: sandbox.CauseExited, Ends: sandbox.Offsets{Stdout: 4, Stderr: 4}})
	}},
	{Name: "from any offset come the bytes from there on", run: fromOffsets},
	{Name: "text is not cut inside a character", run: wholeCharacters},
	{Name: "bytes that are no text arrive all the same", run: func(t *trial) {
		p := t.start(shell(`printf '\377\376\200abc\303\50\342\211'; printf '\360\237' >&2`))
		f := t.follow(p, offsets0)
		t.same("stdout", f.stdout, []byte("\xff\xfe\x80abc\xc3(\xe2\x89"))
		t.same("stderr", f.stderr, []byte("\xf0\x9f"))
	}},
	{Name: "an error of take ends Follow with it, and not the command", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`echo one; cat go; echo two`))
		why := errors.New("enough")
		_, err := p.Follow(t.ctx, offsets0, func(sandbox.Output) error { return why })
		t.is(err, why)
		t.release("go")
		t.same("stdout", string(t.follow(p, offsets0).stdout), "one\ngo\ntwo\n")
	}},
	{Name: "the end of the context ends Follow with its cause, and not the command", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`echo one; cat go; echo two`))
		why := errors.New("the reader went away")
		ctx, cancel := context.WithCancelCause(t.ctx)
		_, err := p.Follow(ctx, offsets0, func(sandbox.Output) error { cancel(why); return nil })
		t.is(err, why)
		t.release("go")
		t.same("stdout", string(t.follow(p, offsets0).stdout), "one\ngo\ntwo\n")
	}},
	// superradcompany/microsandbox#1549
	{Name: "the end of the context of Start does not touch the command", run: func(t *trial) {
		t.fifo("go")
		ctx, cancel := context.WithCancel(t.ctx)
		p, err := t.box.Start(ctx, shell(`cat go; echo done`))
		t.ok(err)
		cancel()
		t.release("go")
		t.same("stdout", string(t.follow(p, offsets0).stdout), "go\ndone\n")
	}},
	// e2b-dev/infra#3292, MisterTea/EternalTerminal#631
	{Name: "a taker that stops holds itself up alone", run: stoppedTaker},
	{Name: "a command that nobody follows writes on and ends", run: func(t *trial) {
		p := t.start(shell(`head -c 8000000 /dev/zero; touch done`))
		t.soon("the command to end", func() bool { return t.exists("done") })
		f := t.follow(p, offsets0)
		t.same("the length", f.exit.Ends.Stdout, int64(8_000_000))
	}},
	{Name: "of much output the newest bytes are kept, and how much is missing is told", run: keptTail},
	{Name: "Attach finds what runs and what has ended", run: attach},
	{Name: "an unknown id is ErrUnknown", run: func(t *trial) {
		_, err := t.box.Attach(t.ctx, freshID())
		t.is(err, sandbox.ErrUnknown)
	}},
	{Name: "Start returns once there is a process", run: func(t *trial) {
		for range 20 {
			p := t.start(sandbox.Command{Argv: []string{"sleep", "1000"}})
			ran, err := p.Signal(t.ctx, int(syscall.SIGKILL), sandbox.Leader)
			t.ok(err)
			t.same("whether it ran", ran, true)
			t.same("code", t.follow(p, offsets0).exit.Code, 137)
		}
	}},
	{Name: "what gets no process can be followed to 125, 126, 127", run: func(t *trial) {
		t.put("plain", "x")
		for code, c := range map[int]sandbox.Command{
			125: {Argv: []string{"true"}, Dir: "missing"}, 126: {Argv: []string{"./plain"}}, 127: {Argv: []string{"no-such-program"}},
		} {
			p := t.start(c)
			f := t.follow(p, offsets0)
			t.same("code", f.exit.Code, code)
			t.same("cause", f.exit.Cause, sandbox.CauseStartFailed)
			ran, err := p.Signal(t.ctx, 9, sandbox.Group)
			t.ok(err)
			t.same("whether it ran", ran, false)
		}
	}},
	// PrimeIntellect-ai/prime#868
	{Name: "started again under its id it is the same command, running or ended", run: startedAgain},
	{Name: "another command under the id is ErrConflict", run: otherCommand},
	{Name: "the epoch is the computer's", run: func(t *trial) {
		d, err := t.box.Describe(t.ctx)
		t.ok(err)
		p := t.start(shell(`:`))
		t.same("the epoch", p.Epoch(), d.Epoch)
	}},
	{Name: "an unknown id under another epoch is lost and not started", run: otherEpoch},
	{Name: "an id of long ago is ErrExpired and not run", run: func(t *trial) {
		c := sandbox.Command{ID: "018cc251-f400-7000-8000-000000000001", Argv: []string{"touch", "ran"}}
		_, err := t.box.Start(t.ctx, c)
		t.is(err, sandbox.ErrExpired)
		_, err = t.box.Exec(t.ctx, c)
		t.is(err, sandbox.ErrExpired)
		t.there("ran", false)
	}},
	{Name: "Forbid makes an id one that never starts", run: forbidden},
	{Name: "Forbid after the start is false and touches nothing", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`cat go`))
		for range 2 {
			is, err := t.box.Forbid(t.ctx, p.ID())
			t.ok(err)
			t.same("whether it is forbidden", is, false)
		}
		t.release("go")
		t.same("code", t.follow(p, offsets0).exit.Code, 0)
		is, err := t.box.Forbid(t.ctx, p.ID())
		t.ok(err)
		t.same("whether it is forbidden", is, false)
	}},
	{Name: "Forget drops the output and keeps the exit", run: forget},
	{Name: "Forget of a command that runs is an error and touches nothing", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`echo one; cat go`))
		if err := p.Forget(t.ctx); err == nil {
			t.Errorf("a running command was forgotten")
		}
		t.release("go")
		t.same("stdout", string(t.follow(p, offsets0).stdout), "one\ngo\n")
	}},
}

// watch follows in the background; each piece of stdout is sent.
func (t *trial) watch(p sandbox.Process) (pieces <-chan string, exits <-chan sandbox.Exit) {
	out, end := make(chan string, 1024), make(chan sandbox.Exit, 1)
	go func() {
		exit, err := p.Follow(t.ctx, offsets0, func(o sandbox.Output) error {
			out <- string(o.Data)
			return nil
		})
		if err != nil && t.ctx.Err() == nil {
			t.Errorf("follow: %v", err)
		}
		close(out)
		end <- exit
	}()
	return out, end
}

func liveOutput(t *trial) {
	t.fifo("go1")
	t.fifo("go2")
	p := t.start(shell(`printf one; cat go1 > /dev/null; printf two; cat go2 > /dev/null; printf three`))
	pieces, exits := t.watch(p)
	t.same("the first piece", await(t, "output of a running command", pieces), "one")
	t.release("go1")
	t.same("the second piece", await(t, "output of a running command", pieces), "two")
	t.release("go2")
	t.same("the third piece", await(t, "output of a running command", pieces), "three")
	t.same("code", await(t, "the end", exits).Code, 0)
}

func fromOffsets(t *trial) {
	out, err := numbered(200_000), strings.ToUpper(strings.ReplaceAll(numbered(50_000), "0", "x"))
	t.put("out", out)
	t.put("err", err)
	p := t.start(shell(`cat out; cat err >&2`))
	for _, from := range []sandbox.Offsets{{}, {Stdout: 1}, {Stdout: 65_536, Stderr: 3}, {Stdout: 199_999, Stderr: 50_000}, {Stdout: 200_000, Stderr: 49_999}, {Stdout: 123_456}} {
		f := t.follow(p, from)
		t.same("stdout", f.stdout, []byte(out)[from.Stdout:][:len(f.stdout)])
		t.same("stderr", f.stderr, []byte(err)[from.Stderr:][:len(f.stderr)])
		t.same("the lengths", []int{len(f.stdout), len(f.stderr)}, []int{200_000 - int(from.Stdout), 50_000 - int(from.Stderr)})
		t.same("the pieces", joined(f.pieces, sandbox.Stdout), f.stdout)
	}
}

func wholeCharacters(t *trial) {
	// strands-agents/harness-sdk#4156, anomalyco/opencode#15385
	text := strings.Repeat("aé日𝄞", 60_000)
	t.put("text", text)
	p := t.start(shell(`cat text; i=0; while [ $i -lt 300 ]; do printf '\342'; printf '\211\244'; i=$((i+1)); done`))
	for range 2 { // once while it comes, once from what is kept
		f := t.follow(p, offsets0)
		for _, piece := range f.pieces {
			if !utf8.Valid(piece.Data) {
				t.Fatalf("the piece at %d, of %d bytes, is cut inside a character", piece.Offset, len(piece.Data))
			}
		}
		t.same("the text", f.stdout, []byte(text+strings.Repeat("≤", 300)))
	}
}

func stoppedTaker(t *trial) {
	p := t.start(shell(`head -c 6000000 /dev/zero; touch done`))
	stopped, resume := make(chan struct{}), make(chan struct{})
	total := make(chan int64, 1)
	go func() {
		var n int64
		first := true
		_, _ = p.Follow(t.ctx, offsets0, func(o sandbox.Output) error {
			if first {
				first = false
				close(stopped)
				select {
				case <-resume:
				case <-t.ctx.Done():
				}
			}
			n += int64(len(o.Data)) + o.Missing
			return nil
		})
		total <- n
	}()
	await(t, "the first taker to stop", stopped)
	t.same("what another taker gets", len(t.follow(p, offsets0).stdout), 6_000_000)
	t.there("done", true)
	t.same("what another command says", t.sh(`echo meanwhile`), "meanwhile\n")
	close(resume)
	t.same("what the first taker gets in the end", await(t, "the first taker", total), int64(6_000_000))
}

func keptTail(t *trial) {
	// brightwave-inc/tidebreak#3338
	const size, kept = 12_000_000, 1_000_000
	t.put("out", numbered(size))
	c := shell(`cat out; echo err >&2; exit 9`)
	c.MaxOutput = kept
	p := t.start(c)
	t.same("code", t.follow(p, offsets0).exit.Code, 9)
	f := t.follow(p, offsets0)
	t.same("the end", f.exit.Ends.Stdout, int64(size))
	if len(f.stdout) < kept {
		t.Errorf("only %d bytes are kept, of the %d that were asked for", len(f.stdout), kept)
	}
	t.same("what is kept", f.stdout, []byte(numbered(size))[size-len(f.stdout):])
	t.same("stderr", string(f.stderr), "err\n")
}

func attach(t *trial) {
	t.fifo("go")
	p := t.start(shell(`echo one; cat go; exit 3`))
	running, err := t.box.Attach(t.ctx, p.ID())
	t.ok(err)
	t.same("the id", running.ID(), p.ID())
	t.release("go")
	t.same("stdout", string(t.follow(running, offsets0).stdout), "one\ngo\n")
	over, err := t.box.Attach(t.ctx, p.ID())
	t.ok(err)
	f := t.follow(over, offsets0)
	t.same("stdout of an ended command", string(f.stdout), "one\ngo\n")
	t.same("code", f.exit.Code, 3)
	r := t.exec(shell(`echo by Exec`))
	byExec, err := t.box.Attach(t.ctx, r.ID)
	t.ok(err)
	t.same("stdout of what Exec ran", string(t.follow(byExec, offsets0).stdout), "by Exec\n")
}

func startedAgain(t *trial) {
	t.fifo("go")
	c := shell(`echo ran >> log; cat go; exit 2`)
	c.ID = freshID()
	c.SecretEnv = []string{"TOKEN=first"}
	first := t.start(c)
	c.SecretEnv = []string{"TOKEN=second"}
	second := t.start(c)
	t.same("the ids", []string{first.ID(), second.ID()}, []string{c.ID, c.ID})
	t.release("go")
	t.same("code", t.follow(first, offsets0).exit.Code, 2)
	t.same("code by the other", t.follow(second, offsets0).exit.Code, 2)
	t.same("code of the third", t.follow(t.start(c), offsets0).exit.Code, 2)
	r := t.exec(c)
	t.same("code by Exec", r.Code, 2)
	t.same("stdout by Exec", string(r.Stdout), "go\n")
	t.same("how often it ran", t.get("log"), "ran\n")
}

func otherCommand(t *trial) {
	c := shell(`echo ran >> log`)
	c.ID, c.Env, c.Dir, c.Stdin = freshID(), []string{"A=1"}, ".", []byte("x")
	t.follow(t.start(c), offsets0)
	for what, change := range map[string]func(c *sandbox.Command){
		"argv":   func(c *sandbox.Command) { c.Argv = []string{"true"} },
		"env":    func(c *sandbox.Command) { c.Env = []string{"A=2"} },
		"stdin":  func(c *sandbox.Command) { c.Stdin = []byte("y") },
		"dir":    func(c *sandbox.Command) { c.Dir = "/" },
		"merge":  func(c *sandbox.Command) { c.MergeStderr = true },
		"secret": func(c *sandbox.Command) { c.SecretEnv = []string{"B=1"} },
	} {
		other := c
		change(&other)
		if _, err := t.box.Start(t.ctx, other); !errors.Is(err, sandbox.ErrConflict) {
			t.Errorf("Start with another %s: got error %v, want ErrConflict", what, err)
		}
		if _, err := t.box.Exec(t.ctx, other); !errors.Is(err, sandbox.ErrConflict) {
			t.Errorf("Exec with another %s: got error %v, want ErrConflict", what, err)
		}
	}
	t.same("how often it ran", t.get("log"), "ran\n")
}

func otherEpoch(t *trial) {
	d, err := t.box.Describe(t.ctx)
	t.ok(err)
	c := sandbox.Command{ID: freshID(), IfEpoch: "another-life", Argv: []string{"touch", "ran"}}
	var lost *sandbox.LostError
	_, err = t.box.Start(t.ctx, c)
	if !errors.As(err, &lost) || lost.ID != c.ID {
		t.Errorf("Start: got error %v, want a *LostError about %s", err, c.ID)
	}
	c.ID = freshID()
	if _, err = t.box.Exec(t.ctx, c); !errors.As(err, &lost) {
		t.Errorf("Exec: got error %v, want a *LostError", err)
	}
	t.there("ran", false)

	c.ID, c.IfEpoch = freshID(), d.Epoch
	t.same("code under the right epoch", t.exec(c).Code, 0)
	t.there("ran", true)
	c.IfEpoch = "another-life"
	t.same("code of a known id", t.exec(c).Code, 0)
}

func forbidden(t *trial) {
	c := sandbox.Command{ID: freshID(), Argv: []string{"touch", "ran"}}
	for range 2 {
		is, err := t.box.Forbid(t.ctx, c.ID)
		t.ok(err)
		t.same("whether it is forbidden", is, true)
	}
	_, err := t.box.Start(t.ctx, c)
	t.is(err, sandbox.ErrForbidden)
	_, err = t.box.Exec(t.ctx, c)
	t.is(err, sandbox.ErrForbidden)
	t.there("ran", false)
}

func forget(t *trial) {
	c := shell(`echo ran >> log; echo out; echo error >&2; exit 8`)
	c.ID = freshID()
	p := t.start(c)
	first := t.follow(p, offsets0).exit
	t.ok(p.Forget(t.ctx))
	t.ok(p.Forget(t.ctx))
	for name, process := range map[string]func() (sandbox.Process, error){
		"the process":   func() (sandbox.Process, error) { return p, nil },
		"Start":         func() (sandbox.Process, error) { return t.box.Start(t.ctx, c) },
		"another Start": func() (sandbox.Process, error) { return t.box.Start(t.ctx, c) },
	} {
		q, err := process()
		t.ok(err)
		f := t.follow(q, offsets0)
		t.same("the exit by "+name, fmt.Sprint(f.exit.Code, f.exit.Cause, f.exit.Ends), fmt.Sprint(first.Code, first.Cause, first.Ends))
		t.same("the output by "+name, len(f.stdout)+len(f.stderr), 0)
	}
	t.same("how often it ran", t.get("log"), "ran\n")
}
