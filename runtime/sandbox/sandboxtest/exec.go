package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var execCases = []Case{
	{Name: "an exit code is a result, never an error", run: func(t *trial) {
		for _, code := range []int{0, 1, 2, 7, 124, 125, 126, 127, 128, 130, 255} {
			r := t.exec(shell(`exit "$1"`, fmt.Sprint(code)))
			t.same("code", r.Code, code)
			t.same("signal", r.Signal, 0)
			t.same("cause", r.Cause, sandbox.CauseExited)
			t.same("message", r.Message, "")
		}
	}},
	// BitterSecurity/Decepticon#340
	{Name: "100 times the same code", run: func(t *trial) {
		for range 100 {
			t.same("code", t.exec(shell(`exit 7`)).Code, 7)
		}
	}},
	// earendil-works/pi#8992, e2b-dev/infra#90
	{Name: "death by signal n is 128 + n", run: func(t *trial) {
		for _, signal := range []int{9, 15, 6, 11} {
			r := t.exec(shell(`kill -"$1" $$`, fmt.Sprint(signal)))
			t.same("code", r.Code, 128+signal)
			t.same("signal", r.Signal, signal)
			t.same("cause", r.Cause, sandbox.CauseExited)
		}
	}},
	// kubernetes/kubernetes#40820
	{Name: "a program that is missing is 127", run: func(t *trial) {
		t.sh(`printf '#!/no/such/interpreter\n' > script && chmod +x script`)
		for _, program := range []string{"s3cr3t-program", "./s3cr3t-program", "/s3cr3t/program", "./script"} {
			startFails(t, sandbox.Command{Argv: []string{program, "s3cr3t"}}, 127)
		}
	}},
	{Name: "a program that cannot be executed is 126", run: func(t *trial) {
		t.sh(`echo 'exit 0' > s3cr3t-plain && mkdir s3cr3t-dir && printf '\177ELF' > s3cr3t-torn && chmod +x s3cr3t-torn`)
		for _, program := range []string{"./s3cr3t-plain", "./s3cr3t-dir", "./s3cr3t-torn"} {
			startFails(t, sandbox.Command{Argv: []string{program, "s3cr3t"}}, 126)
		}
	}},
	{Name: "an argument too long for the kernel is 126", run: func(t *trial) {
		startFails(t, sandbox.Command{Argv: []string{"true", strings.Repeat("s3cr3t", 40_000)}}, 126)
	}},
	{Name: "a working directory that is missing, or none, is 125", run: func(t *trial) {
		t.put("s3cr3t-file", "x")
		for _, dir := range []string{"s3cr3t", "/s3cr3t/x", "s3cr3t-file"} {
			startFails(t, sandbox.Command{Argv: []string{"true"}, Dir: dir}, 125)
		}
	}},
	{Name: "a command that no computer could run is EINVAL", run: impossible},
	{Name: "arguments arrive byte for byte, without a shell", run: func(t *trial) {
		args := []string{"", " ", "a b", "$HOME", "`id`", "*", "-rf", "--", `\`, "'", `"`, "a\nb", "\xff\xfe", "größe", strings.Repeat("x", 100_000), ""}
		r := t.exec(sandbox.Command{Argv: append([]string{"printf", `%s\0`}, args...)})
		t.same("the arguments", strings.Split(string(r.Stdout), "\x00"), append(args, ""))
	}},
	{Name: "a program is found in PATH, at a path, and from the working directory", run: func(t *trial) {
		t.sh(`mkdir bin && printf '#!/bin/sh\necho "ran $0"\n' > bin/prog && chmod +x bin/prog`)
		for _, c := range []sandbox.Command{
			{Argv: []string{"bin/prog"}},
			{Argv: []string{"./prog"}, Dir: "bin"},
			{Argv: []string{t.box.Dir() + "/bin/prog"}, Dir: "/"},
			{Argv: []string{"prog"}, Env: []string{"PATH=" + t.box.Dir() + "/bin:/bin:/usr/bin"}},
		} {
			if r := t.exec(c); r.Code != 0 || !strings.HasPrefix(string(r.Stdout), "ran ") {
				t.Errorf("%q ended with %d: %s", c.Argv, r.Code, r.Stdout)
			}
		}
	}},
	{Name: "a command starts in Dir, absolute or from the sandbox's", run: func(t *trial) {
		t.sh(`mkdir -p a/b && touch here a/in-a a/b/in-b`)
		for dir, want := range map[string]string{"": "a\nhere\n", "a": "b\nin-a\n", "a/b": "in-b\n", t.box.Dir() + "/a": "b\nin-a\n"} {
			t.same("the listing", string(t.exec(sandbox.Command{Argv: []string{"ls"}, Dir: dir}).Stdout), want)
		}
	}},
	{Name: "stdout and stderr are apart", run: func(t *trial) {
		r := t.exec(shell(`echo out; echo err >&2; echo out; echo err >&2`))
		t.same("stdout", string(r.Stdout), "out\nout\n")
		t.same("stderr", string(r.Stderr), "err\nerr\n")
		t.same("the ends", r.Ends, sandbox.Offsets{Stdout: 8, Stderr: 8})
	}},
	{Name: "MergeStderr keeps the exact order", run: func(t *trial) {
		c := shell(`i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`)
		c.MergeStderr = true
		want := ""
		for i := range 200 {
			want += fmt.Sprintf("o%d\ne%d\n", i, i)
		}
		r := t.exec(c)
		t.same("stdout", string(r.Stdout), want)
		t.same("stderr", string(r.Stderr), "")
	}},
	{Name: "output is bytes, NULs and all", run: func(t *trial) {
		t.put("f", strings.Repeat(allBytes(), 1000))
		r := t.exec(shell(`cat f; cat f >&2`))
		t.same("stdout", r.Stdout, []byte(strings.Repeat(allBytes(), 1000)))
		t.same("stderr", r.Stderr, []byte(strings.Repeat(allBytes(), 1000)))
	}},
	// containers/podman#9096
	{Name: "200000 bytes written one by one are 200000", run: func(t *trial) {
		r := t.exec(shell(`dd if=/dev/zero bs=1 count=200000 2>/dev/null`))
		t.same("the length", len(r.Stdout), 200_000)
	}},
	// golang/go#19685, kubernetes/kubernetes#124571
	{Name: "the last words of short commands are never lost", run: func(t *trial) {
		for i := range 100 {
			want := fmt.Sprintf("last word %d", i)
			t.same("stdout", string(t.exec(shell(`printf %s "$1"`, want)).Stdout), want)
		}
	}},
	// ziglang/zig#6343
	{Name: "much on stderr before stdout blocks nothing", run: func(t *trial) {
		r := t.exec(shell(`head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero`))
		t.same("the ends", r.Ends, sandbox.Offsets{Stdout: 1_000_000, Stderr: 1_000_000})
		t.same("the lengths", []int{len(r.Stdout), len(r.Stderr)}, []int{1_000_000, 1_000_000})
	}},
	{Name: "MaxOutput collects the first bytes and tells of the rest", run: func(t *trial) {
		c := shell(`printf 0123456789; printf abcdefghij >&2; exit 3`)
		c.MaxOutput = 4
		r := t.exec(c)
		t.same("stdout", string(r.Stdout), "0123")
		t.same("stderr", string(r.Stderr), "abcd")
		t.same("Truncated", r.Truncated(), true)
		t.same("the ends", r.Ends, sandbox.Offsets{Stdout: 10, Stderr: 10})
		t.same("code", r.Code, 3)
		t.same("Truncated of a whole result", t.exec(shell(`echo x`)).Truncated(), false)
	}},
	// daytonaio/daytona#3770
	{Name: "without Stdin there is nothing to read", run: func(t *trial) {
		r := t.exec(shell(`cat; [ -t 0 ] || echo no terminal`))
		t.same("stdout", string(r.Stdout), "no terminal\n")
	}},
	{Name: "Stdin arrives byte for byte and ends", run: func(t *trial) {
		for _, content := range []string{"", "x", "no newline at the end", allBytes(), strings.Repeat(allBytes(), 40_000)} {
			r := t.exec(sandbox.Command{Argv: []string{"cat"}, Stdin: []byte(content)})
			t.same("what came back", r.Stdout, []byte(content)[:len(r.Stdout)])
			t.same("its length", len(r.Stdout), len(content))
		}
	}},
	{Name: "Stdin that nobody reads is no error", run: func(t *trial) {
		r := t.exec(sandbox.Command{Argv: []string{"sh", "-c", "exec <&-; exit 5"}, Stdin: make([]byte, 1<<20)})
		t.same("code", r.Code, 5)
	}},
	{Name: "the environment is the computer's clean one and what was added", run: cleanEnvironment},
	// gominimal/minimal#1342, tinylibs/tinyexec#138
	{Name: "what runs on in the background holds nobody up, and is not ended", run: background},
	// mksglu/context-mode#848
	{Name: "what runs on in the background may write on", run: func(t *trial) {
		t.fifo("go")
		r := t.exec(shell(`(cat go; echo late && echo late >&2 && touch alive) & echo early`))
		t.same("code", r.Code, 0)
		t.same("stdout", string(r.Stdout), "early\n")
		t.release("go")
		t.soon("the background to write on", func() bool { return t.exists("alive") })
	}},
	{Name: "an id is made, or kept", run: func(t *trial) {
		r := t.exec(sandbox.Command{Argv: []string{"true"}})
		id, err := uuid.Parse(r.ID)
		t.ok(err)
		t.same("the version", id.Version(), uuid.Version(7))
		own := freshID()
		t.same("the id", t.exec(sandbox.Command{ID: own, Argv: []string{"true"}}).ID, own)
	}},
	{Name: "the end of the context is TERM to the group, and its cause", run: cancelled},
	{Name: "what heeds no TERM gets KILL after TermGrace", run: stubborn},
}

// startFails holds a command to have got no process, and its message to tell nothing of it.
func startFails(t *trial, c sandbox.Command, code int) {
	t.Helper()
	c.SecretEnv = []string{"TOKEN=s3cr3t-token"}
	r := t.exec(c)
	t.same("code", r.Code, code)
	t.same("cause", r.Cause, sandbox.CauseStartFailed)
	t.same("the ends", r.Ends, sandbox.Offsets{})
	if r.Message == "" || strings.Contains(r.Message, "s3cr3t") {
		t.Errorf("the message is %q", r.Message)
	}
}

func impossible(t *trial) {
	for what, c := range map[string]sandbox.Command{
		"no program":           {},
		"an empty program":     {Argv: []string{""}},
		"a NUL in an argument": {Argv: []string{"touch", "made", "a\x00b"}},
		"a NUL in Dir":         {Argv: []string{"touch", "made"}, Dir: "a\x00b"},
		"a NUL in Env":         {Argv: []string{"touch", "made"}, Env: []string{"A=\x00"}},
		"Env without =":        {Argv: []string{"touch", "made"}, Env: []string{"A"}},
		"Env without a name":   {Argv: []string{"touch", "made"}, SecretEnv: []string{"=s3cr3t"}},
		"a negative limit":     {Argv: []string{"touch", "made"}, Timeout: -1},
		"content and open":     {Argv: []string{"touch", "made"}, Stdin: []byte("x"), Interactive: true},
		"an id of words":       {Argv: []string{"touch", "made"}, ID: "my-command"},
		"an id of version 4":   {Argv: []string{"touch", "made"}, ID: "f47ac10b-58cc-4372-a567-0e02b2c3d479"},
	} {
		_, err := t.box.Exec(t.ctx, c)
		if !errors.Is(err, syscall.EINVAL) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("Exec with %s: got error %v, want EINVAL", what, err)
		}
		if _, err = t.box.Start(t.ctx, c); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Start with %s: got error %v, want EINVAL", what, err)
		}
	}
	t.there("made", false)
}

func cleanEnvironment(t *trial) {
	// QwenLM/qwen-code#7256, devswha/gajae-code-app#121
	t.Setenv("FLYFLEET_SANDBOXTEST_LEAK", "s3cr3t")
	line := func(name string, env ...string) string {
		r := t.exec(sandbox.Command{Argv: []string{"env"}, Env: env, SecretEnv: []string{"TOKEN=a=b"}})
		for l := range strings.Lines(string(r.Stdout)) {
			if value, ok := strings.CutPrefix(l, name+"="); ok {
				return strings.TrimSuffix(value, "\n")
			}
		}
		return "absent"
	}
	t.same("a variable of the caller's process", line("FLYFLEET_SANDBOXTEST_LEAK"), "absent")
	t.same("TERM without a terminal", line("TERM"), "absent")
	t.same("a secret", line("TOKEN"), "a=b")
	t.same("an added variable", line("ADDED", "ADDED=\xff x"), "\xff x")
	t.same("an empty variable", line("EMPTY", "EMPTY="), "")
	t.same("a replaced variable", line("HOME", "HOME=/elsewhere"), "/elsewhere")
	for _, name := range []string{"PATH", "HOME", "LANG", "WORKSPACE"} {
		if got := line(name); got == "absent" || got == "" {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func background(t *trial) {
	r := t.exec(shell(`sleep 1000 & echo $!; exit 4`))
	t.same("code", r.Code, 4)
	pid := strings.TrimSpace(string(r.Stdout))
	t.sh(`kill -0 "$1" && kill -9 "$1"`, pid)
}

// ended waits for the end of processes whose ids a command wrote.
func (t *trial) ended(pids ...string) {
	t.Helper()
	t.soon("processes to end: "+strings.Join(pids, " "), func() bool {
		// One that nobody reaped yet still has a number: its state is Z.
		return t.sh(`for p in "$@"; do
			if kill -0 "$p" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$p/status" 2>/dev/null; then echo "$p"; fi
			done`, pids...) == ""
	})
}

func cancelled(t *trial) {
	// e2b-dev/E2B#1034
	why := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	type answer struct {
		sandbox.Result
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		c := shell(`trap 'touch termed; exit 3' TERM; sleep 1000 & echo $! > child; echo said; touch ready; wait; wait`)
		r, err := t.box.Exec(ctx, c)
		answers <- answer{r, err}
	}()
	t.soon("the command to be ready", func() bool { return t.exists("ready") })
	cancel(why)
	a := await(t, "Exec to return", answers)
	t.is(a.err, why)
	t.same("what is known: stdout", string(a.Stdout), "said\n")
	t.same("what is known: code", a.Code, 3)
	t.there("termed", true)
	t.ended(strings.TrimSpace(t.get("child")))
}

func stubborn(t *trial) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	results := make(chan sandbox.Result, 1)
	go func() {
		c := shell(`trap '' TERM; echo $$ > pid; touch ready; while :; do sleep 1000; done`)
		c.TermGrace = 200_000_000
		r, _ := t.box.Exec(ctx, c)
		results <- r
	}()
	t.soon("the command to be ready", func() bool { return t.exists("ready") })
	cancel()
	r := await(t, "Exec to return", results)
	t.same("code", r.Code, 137)
	t.same("signal", r.Signal, 9)
	t.same("cause", r.Cause, sandbox.CauseSignalled)
	t.ended(strings.TrimSpace(t.get("pid")))
}

// joined is the output of pieces.
func joined(pieces []sandbox.Output, of sandbox.Stream) []byte {
	var all [][]byte
	for _, p := range pieces {
		if p.Stream == of {
			all = append(all, p.Data)
		}
	}
	return bytes.Join(slices.Clip(all), nil)
}
