package execute_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	if os.Getenv(selfEnv) != "" {
		os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// selfEnv makes this test binary the flyfleet program.
const selfEnv = "FLYFLEET_TEST_SELF"

func startMachine(t *testing.T) {
	t.Helper()
	machinetest.Start(t)
}

func flyfleet(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	return machinetest.Flyfleet(ctx, args...)
}

func TestExecEndsAsTheCommandEnded(t *testing.T) {
	startMachine(t)
	for name, c := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // stderr: a part of it
	}{
		"zero":            {[]string{"--", "true"}, 0, "", ""},
		"code":            {[]string{"--", "sh", "-c", "exit 7"}, 7, "", ""},
		"code 2":          {[]string{"--", "sh", "-c", "exit 2"}, 2, "", ""},
		"signal":          {[]string{"--", "sh", "-c", "kill -KILL $$"}, 137, "", ""},
		"both streams":    {[]string{"--", "sh", "-c", "printf out; printf err >&2; exit 3"}, 3, "out", "err"},
		"not found":       {[]string{"--", "no-such-program"}, 127, "", "not found"},
		"time is over":    {[]string{"--timeout", "50ms", "--", "sleep", "60"}, 143, "", ""},
		"env and cwd":     {[]string{"--env", "A=b=c", "--cwd", "/", "--", "sh", "-c", `printf %s "$A$PWD"`}, 0, "b=c/", ""},
		"no such dir":     {[]string{"--cwd", "/no/such", "--", "true"}, 125, "", "the working directory does not exist"},
		"bytes":           {[]string{"--", "printf", `\377\000é`}, 0, "\xff\x00é", ""},
		"unknown machine": {[]string{"--machine", "m1", "--", "true"}, 125, "", "app tenant has no machine m1, but "},
		"no command":      {nil, 125, "", "command"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := flyfleet(t.Context(), append([]string{"exec", "tenant"}, c.args...)...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.stderr) || (code < 125 && stderr != c.stderr) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
	t.Run("JSON", jsonForm)
	t.Run("interrupted", interrupted)
	t.Run("streamed", streamed)
	t.Run("stdin", piped)
	t.Run("a command that leaves its stdin", unread)
	t.Run("terminal", onTerminal)
	t.Run("terminal restored when flyfleet is ended", endedOnTerminal)
	t.Run("terminal taken over", takenOver)
	t.Run("terminal's window closed", windowClosed)
	t.Run("reader gone", readerGone)
	t.Run("detached", detached)
	t.Run("killed", killed)
	t.Run("a start that fails is not detached", detachedFailure)
	t.Run("attaching and leaving", attachedAndLeft)
	t.Run("contradictions", contradictions)
	t.Run("a stranger's key", strangersKey)
}

func jsonForm(t *testing.T) {
	code, stdout, _ := flyfleet(t.Context(), "--json", "exec", "tenant", "--", "sh", "-c", "echo a; echo b >&2; kill -TERM $$")
	var got struct {
		App, Stdout, Stderr string
		ExitCode            int `json:"exit_code"`
		Signal              int
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if code != 143 || got.ExitCode != 143 || got.Signal != 15 || got.App != "tenant" || got.Stdout != "a\n" || got.Stderr != "b\n" {
		t.Errorf("exit code %d, %+v", code, got)
	}
}

// notifier tells of the first write.
type notifier struct {
	bytes.Buffer
	first chan struct{}
}

func (n *notifier) Write(p []byte) (int, error) {
	if n.Len() == 0 {
		close(n.first)
	}
	return n.Buffer.Write(p)
}

func interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &notifier{first: make(chan struct{})}
	go func() {
		<-out.first
		cancel()
	}()
	code := command.Main(ctx, []string{"exec", "tenant", "--", "sh", "-c", "trap 'echo told; exit 9' TERM; echo ready; while :; do sleep 0.05; done"}, strings.NewReader(""), out, io.Discard)
	if code != 9 || out.String() != "ready\ntold\n" {
		t.Errorf("exit code %d, stdout %q: the command was to be told and waited for", code, out.String())
	}
}

// streamed reads a first line while the command waits for what only that reader does.
func streamed(t *testing.T) {
	out := &notifier{first: make(chan struct{})}
	done := make(chan int, 1)
	go func() {
		done <- command.Main(t.Context(), []string{"exec", "tenant", "--", "sh", "-c", "echo first; while ! [ -e go-on ]; do sleep 0.05; done; echo second"}, strings.NewReader(""), out, io.Discard)
	}()
	select {
	case <-out.first:
	case <-time.After(30 * time.Second):
		t.Error("no output while the command runs")
	}
	if code, _, stderr := flyfleet(t.Context(), "exec", "tenant", "--", "touch", "go-on"); code != 0 {
		t.Errorf("touch: %d %s", code, stderr)
	}
	if code := <-done; code != 0 || out.String() != "first\nsecond\n" {
		t.Errorf("exit code %d, stdout %q", code, out.String())
	}
}

func strangersKey(t *testing.T) {
	dir := t.TempDir()
	root, key := filepath.Join(dir, "root"), filepath.Join(dir, "key")
	for _, args := range [][]string{
		{"keygen", "root", "--fleet", "local", "--out", root},
		{"keygen", "signing", "--root", root, "--name", "op-stranger", "--apps", "*", "--out", key},
	} {
		if code, _, stderr := flyfleet(t.Context(), args...); code != 0 {
			t.Fatal(stderr)
		}
	}
	t.Setenv("FLYFLEET_SIGNING_KEY", key)
	code, _, stderr := flyfleet(t.Context(), "exec", "tenant", "--", "true")
	if code != 125 || !strings.Contains(stderr, "FLYFLEET_TRUST") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}
