// Package execute is the verb that runs one command on a machine, like a shell would.
package execute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Command is `flyfleet exec`.
type Command struct {
	App         string            `arg:"" help:"App of the tenant."`
	Argv        []string          `arg:"" optional:"" name:"command" help:"Command and arguments; put -- before them."`
	Machine     string            `help:"Id of the machine, for an app with several."`
	Interactive bool              `short:"i" help:"Send stdin to the command, byte by byte."`
	Terminal    bool              `short:"t" help:"Give the command a terminal; with -i it is yours."`
	Detach      bool              `xor:"follow" help:"Print the exec's id once the command runs, and leave it running."`
	Attach      string            `xor:"follow" placeholder:"ID" help:"Follow an exec that was started before, from its first byte to its end."`
	Cwd         string            `help:"Directory to run in. Default: the workspace."`
	Env         map[string]string `help:"Environment variable NAME=value for the command; may be repeated." mapsep:"none"`
	Timeout     time.Duration     `help:"End the command after it ran for so long: TERM, then KILL. The machine keeps this limit."`
	Wait        time.Duration     `default:"60s" help:"How long to wait while the machine is swapped, stopping or full."`
}

// Help is the long help.
func (*Command) Help() string {
	return `stdout and stderr are the command's. The exit code is the command's too; 128 + n when signal n ended it; 125 when flyfleet
itself failed or the machine cannot tell how the command ended, with the cause on stderr.

Interrupting sends TERM to the command and waits for its end; with -i -t it sends HUP, as a closed terminal does. Interrupting
--attach leaves the command running. flyfleet ps lists what runs, flyfleet logs shows its output, flyfleet kill ends it.`
}

// Run runs the command and ends with its code.
func (e *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	code, err := e.run(ctx, c, s)
	if err != nil {
		return &console.Exit{Code: ending.Unknown, Err: err}
	}
	if code != 0 {
		return &console.Exit{Code: code}
	}
	return nil
}

func (e *Command) run(ctx context.Context, c *console.Console, s *settings.Settings) (int, error) {
	if err := e.check(c); err != nil {
		return 0, err
	}
	m, err := reach.Open(ctx, s, e.App, e.Machine)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	w := &work{Command: e, console: c, machine: m, sink: newSink(c)}
	if err := w.prepare(ctx); err != nil {
		return 0, m.Failed(err, e.Attach, false)
	}
	result, err := w.do(ctx)
	if err != nil && e.Attach != "" && ctx.Err() != nil {
		return 0, fmt.Errorf("left; the command runs on: flyfleet exec %s --attach %s follows it again", e.App, e.Attach)
	}
	if err != nil {
		return 0, m.Failed(err, result.ID, result.Started != nil)
	}
	if e.Detach && result.Started != nil {
		return 0, detached(c, m, result)
	}
	code, note := ending.Verdict(result)
	if note != "" {
		c.Note("flyfleet: %s", note)
	}
	if c.JSON && !e.Detach {
		return code, w.sink.report(c, e.App, m.ID, result, code)
	}
	return code, nil
}

// check refuses flags that contradict each other.
func (e *Command) check(c *console.Console) error {
	switch {
	case e.Attach == "" && len(e.Argv) == 0:
		return errors.New("there is no command to run; put it after --")
	case e.Attach != "" && len(e.Argv)+len(e.Env)+len(e.Cwd) > 0, e.Attach != "" && e.Timeout != 0:
		return errors.New("--attach follows a command that runs already: leave the command, --env, --cwd and --timeout out")
	case e.Timeout < 0:
		return fmt.Errorf("--timeout %s is negative", e.Timeout)
	case e.Terminal && c.JSON && !e.Detach:
		return errors.New("--json and -t exclude each other")
	}
	return nil
}

// started is the JSON form of a detached start.
type started struct {
	App       string    `json:"app"`
	Machine   string    `json:"machine"`
	ExecID    string    `json:"exec_id"`
	PID       int64     `json:"pid"`
	StartedAt time.Time `json:"started_at"`
}

func detached(c *console.Console, m *reach.Machine, r client.Result) error {
	doc := started{
		App: m.App, Machine: m.ID, ExecID: r.ID, PID: r.Started.GetPid(),
		StartedAt: time.UnixMilli(r.Started.GetStartedAtMs()).UTC(),
	}
	return c.Result(doc, func(w io.Writer) { fmt.Fprintln(w, r.ID) })
}

func (e *Command) spec() *wirev1.ExecSpec {
	spec := &wirev1.ExecSpec{Cwd: []byte(e.Cwd)}
	for _, a := range e.Argv {
		spec.Argv = append(spec.Argv, []byte(a))
	}
	for k, v := range e.Env {
		spec.Env = append(spec.Env, &wirev1.EnvVar{Name: []byte(k), Value: []byte(v)})
	}
	return spec
}
