package execute_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
)

// detach starts a command and returns its id.
func detach(t *testing.T, script string) string {
	t.Helper()
	code, stdout, stderr := flyfleet(t.Context(), "exec", "tenant", "--detach", "--", "sh", "-c", script)
	id := strings.TrimSpace(stdout)
	if code != 0 || stderr != "" || len(id) != 36 || stdout != id+"\n" {
		t.Fatalf("exec --detach: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	return id
}

type listed struct {
	ID, State string
	Argv      []string
	StartedAt time.Time `json:"started_at"`
	StdoutEnd uint64    `json:"stdout_end"`
	StderrEnd uint64    `json:"stderr_end"`
	ExitCode  *int      `json:"exit_code"`
}

// find is what ps tells of an exec.
func find(t *testing.T, id string) listed {
	t.Helper()
	code, stdout, stderr := flyfleet(t.Context(), "--json", "ps", "tenant")
	var list []listed
	if err := json.Unmarshal([]byte(stdout), &list); code != 0 || err != nil {
		t.Fatalf("ps: code %d, %v, stderr %q", code, err, stderr)
	}
	for _, l := range list {
		if l.ID == id {
			return l
		}
	}
	t.Fatalf("ps does not list %s", id)
	return listed{}
}

func detached(t *testing.T) {
	id := detach(t, `printf '\377first\n'; printf err >&2; while ! [ -e "$0.go" ]; do sleep 0.05; done; echo second; exit 7`)
	until(t, "the first output", func() bool { l := find(t, id); return l.StdoutEnd == 7 && l.StderrEnd == 3 })
	if l := find(t, id); l.State != "running" || l.ExitCode != nil || l.Argv[0] != "sh" || l.StartedAt.IsZero() {
		t.Errorf("ps: %+v", l)
	}
	for _, c := range []struct {
		args           []string
		stdout, stderr string
	}{
		{nil, "\xfffirst\n", "err"},
		{[]string{"--from", "1"}, "first\n", "rr"},
		{[]string{"--from", "3", "--from-stderr", "0"}, "rst\n", "err"},
		{[]string{"--from", "1000"}, "", ""},
	} {
		code, stdout, stderr := flyfleet(t.Context(), append([]string{"logs", "tenant", id}, c.args...)...)
		if code != 0 || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("logs %v: code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	out := &notifier{first: make(chan struct{})}
	follower := make(chan int, 1)
	go func() {
		follower <- command.Main(t.Context(), []string{"logs", "tenant", id, "--from", "1", "--follow"}, strings.NewReader(""), out, io.Discard)
	}()
	<-out.first
	if code, _, stderr := flyfleet(t.Context(), "exec", "tenant", "--", "touch", "sh.go"); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, stderr := flyfleet(t.Context(), "exec", "tenant", "--attach", id)
	if code != 7 || stdout != "\xfffirst\nsecond\n" || stderr != "err" {
		t.Errorf("exec --attach: code %d, %q, %q", code, stdout, stderr)
	}
	if code := <-follower; code != 0 || out.String() != "first\nsecond\n" {
		t.Errorf("logs --follow: code %d, %q", code, out.String())
	}
	if l := find(t, id); l.State != "exited" || l.ExitCode == nil || *l.ExitCode != 7 || l.StdoutEnd != 14 {
		t.Errorf("ps: %+v", l)
	}
	if code, stdout, _ := flyfleet(t.Context(), "ps", "tenant"); code != 0 || !strings.Contains(stdout, id) || !strings.Contains(stdout, "exited 7") {
		t.Errorf("ps as text: %q", stdout)
	}
	if code, stdout, _ := flyfleet(t.Context(), "ps", "tenant", "--running"); code != 0 || strings.Contains(stdout, id) {
		t.Errorf("ps --running lists what has ended: %q", stdout)
	}
}

func killed(t *testing.T) {
	id := detach(t, "exec sleep 600")
	if code, stdout, stderr := flyfleet(t.Context(), "kill", "tenant", id, "--signal", "sigint"); code != 0 || !strings.Contains(stdout, id) {
		t.Errorf("kill: %d %q %q", code, stdout, stderr)
	}
	if code, _, _ := flyfleet(t.Context(), "exec", "tenant", "--attach", id); code != 130 {
		t.Errorf("exit code %d after INT, want 130", code)
	}
	code, stdout, _ := flyfleet(t.Context(), "--json", "kill", "tenant", id)
	var again struct {
		Delivered bool
		State     string
	}
	if err := json.Unmarshal([]byte(stdout), &again); err != nil || code != 0 || again.Delivered || again.State != "exited" {
		t.Errorf("kill after the end: code %d, %v, %+v", code, err, again)
	}
	if code, _, stderr := flyfleet(t.Context(), "kill", "tenant", id, "--signal", "NONSENSE"); code != 1 || !strings.Contains(stderr, "NONSENSE is no signal") {
		t.Errorf("kill with no signal: %d %q", code, stderr)
	}
	const unknown = "01890000-0000-7000-8000-000000000000"
	for verb, args := range map[string][]string{
		"kill": {"kill", "tenant", unknown}, "logs": {"logs", "tenant", unknown}, "attach": {"exec", "tenant", "--attach", unknown},
	} {
		if code, _, stderr := flyfleet(t.Context(), args...); code == 0 || !strings.Contains(stderr, "flyfleet ps tenant") {
			t.Errorf("%s of an unknown exec: code %d, %q", verb, code, stderr)
		}
	}
}

func detachedFailure(t *testing.T) {
	code, stdout, stderr := flyfleet(t.Context(), "exec", "tenant", "--detach", "--", "no-such-program")
	if code != 127 || stdout != "" || !strings.Contains(stderr, "not found") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	code, stdout, stderr = flyfleet(t.Context(), "--json", "exec", "tenant", "--detach", "--", "true")
	var doc struct {
		ExecID string `json:"exec_id"`
		PID    int    `json:"pid"`
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || code != 0 || len(doc.ExecID) != 36 || doc.PID == 0 {
		t.Errorf("code %d, %v, %q, %q", code, err, stdout, stderr)
	}
}

// attachedAndLeft interrupts a follower: the command, which was there before, runs on.
func attachedAndLeft(t *testing.T) {
	id := detach(t, "echo here; exec sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &notifier{first: make(chan struct{})}
	go func() {
		<-out.first
		cancel()
	}()
	var notes strings.Builder
	if code := command.Main(ctx, []string{"exec", "tenant", "--attach", id}, strings.NewReader(""), out, &notes); code != 125 || !strings.Contains(notes.String(), "the command runs on") {
		t.Errorf("exit code %d, %q", code, notes.String())
	}
	if l := find(t, id); l.State != "running" {
		t.Errorf("after its follower left: %+v", l)
	}
	if code, _, stderr := flyfleet(t.Context(), "kill", "tenant", id, "--signal", "9", "--target", "tree"); code != 0 {
		t.Error(stderr)
	}
	if code, _, _ := flyfleet(t.Context(), "exec", "tenant", "--attach", id); code != 137 {
		t.Errorf("exit code %d after KILL", code)
	}
}

func contradictions(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"nothing to run":        {nil, "no command to run"},
		"attach and a command":  {[]string{"--attach", "x", "--", "true"}, "runs already"},
		"attach and a limit":    {[]string{"--attach", "x", "--timeout", "1s"}, "runs already"},
		"attach and detach":     {[]string{"--attach", "x", "--detach"}, "can't be used together"},
		"a screen in JSON":      {[]string{"--json", "-t", "--", "true"}, "exclude each other"},
		"-t without a terminal": {[]string{"-i", "-t", "--", "true"}, "stdin is not a terminal"},
	} {
		code, stdout, stderr := flyfleet(t.Context(), append([]string{"exec", "tenant"}, c.args...)...)
		if code != 125 || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

// until waits for a condition; a minute is for machines under load.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
