// Package ps is the verb that lists the caller's execs on a machine.
package ps

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Command is `flyfleet ps`.
type Command struct {
	App     string `arg:"" help:"App of the tenant."`
	Machine string `help:"Id of the machine, for an app with several."`
	Running bool   `help:"Only commands that run now."`
}

// Help is the long help.
func (*Command) Help() string {
	return `Newest first, only what was started with your own key's name: the runtime's commands are not listed.`
}

// Exec is one line: a command as the machine tells of it.
type Exec struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	StartedAt time.Time `json:"started_at,omitzero"`
	PID       int64     `json:"pid,omitempty"`
	// Argv holds the arguments as text; bytes that are no UTF-8 are replaced.
	Argv []string `json:"argv"`
	// StdoutEnd and StderrEnd are where the streams end now, in bytes.
	StdoutEnd uint64 `json:"stdout_end"`
	StderrEnd uint64 `json:"stderr_end"`
	Attached  uint32 `json:"attached"`
	// ExitCode is set when state is exited.
	ExitCode *int      `json:"exit_code,omitempty"`
	Signal   int32     `json:"signal,omitempty"`
	Cause    string    `json:"cause,omitempty"`
	EndedAt  time.Time `json:"ended_at,omitzero"`
}

// Run lists.
func (p *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	m, err := reach.Open(ctx, s, p.App, p.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	found, err := m.List(ctx, p.Running)
	if err != nil {
		return m.Failed(err, "", false)
	}
	list := make([]Exec, 0, len(found))
	for _, info := range found {
		list = append(list, of(info))
	}
	return c.Result(list, func(w io.Writer) { table(w, list, p.App) })
}

func of(info *wirev1.ExecInfo) Exec {
	e := Exec{
		ID: info.GetExecId(), State: ending.Word(info.GetState().String(), "EXEC_STATE_"), PID: info.GetPid(),
		StdoutEnd: info.GetStdoutEnd(), StderrEnd: info.GetStderrEnd(), Attached: info.GetAttached(),
		Argv: []string{},
	}
	if ms := info.GetStartedAtMs(); ms != 0 {
		e.StartedAt = time.UnixMilli(ms).UTC()
	}
	for _, a := range info.GetArgv() {
		e.Argv = append(e.Argv, strings.ToValidUTF8(string(a), string(utf8.RuneError)))
	}
	if exit := info.GetExit(); exit != nil {
		code := ending.Code(exit)
		e.ExitCode, e.Signal, e.Cause = &code, exit.GetSignal(), ending.Cause(exit)
		if ms := exit.GetEndedAtMs(); ms != 0 {
			e.EndedAt = time.UnixMilli(ms).UTC()
		}
	}
	if lost := info.GetLost(); lost != nil {
		e.Cause = ending.Word(lost.GetReason().String(), "LOST_REASON_")
	}
	return e
}

func table(w io.Writer, list []Exec, app string) {
	if len(list) == 0 {
		fmt.Fprintf(w, "You have started nothing on the machine of app %s.\n", app)
		return
	}
	rows := make([][]string, 0, len(list))
	for _, e := range list {
		rows = append(rows, []string{
			e.ID, e.state(), when(e.StartedAt),
			strconv.FormatUint(e.StdoutEnd, 10), strconv.FormatUint(e.StderrEnd, 10), line(e.Argv),
		})
	}
	console.Table(w, []string{"id", "state", "started", "stdout", "stderr", "command"}, rows)
}

// state is one word, and the exit code where there is one.
func (e *Exec) state() string {
	switch {
	case e.ExitCode != nil:
		return e.State + " " + strconv.Itoa(*e.ExitCode)
	case e.Cause != "":
		return e.State + " (" + e.Cause + ")"
	}
	return e.State
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// mostLine is how much of a command line the table shows.
const mostLine = 60

func line(argv []string) string {
	text := []rune(strings.Join(argv, " "))
	if len(text) > mostLine {
		return string(text[:mostLine-1]) + "…"
	}
	return string(text)
}
