// Package local holds the verbs of the Fly platform on this computer, and starts it for other verbs.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// Command is `flyfleet local`.
type Command struct {
	Up     Up     `cmd:"" help:"Run a Fly platform on this computer until it is interrupted."`
	Down   Down   `cmd:"" help:"Stop the platform that runs, with its machines."`
	Status Status `cmd:"" help:"Say whether a platform runs, and where."`
	Env    Env    `cmd:"" help:"Print the variables for clients, as lines for a shell."`
	Reset  Reset  `cmd:"" help:"Delete the platform's state: apps, machines, volumes, images, keys."`
}

type directory struct {
	Dir string `help:"State directory. Default: FLYFLEET_LOCAL_DIR, or ~/.local/state/flyfleet/local."`
}

// Up is `flyfleet local up`.
type Up struct {
	directory
	Runner    string `default:"auto" enum:"auto,namespace,process,none" help:"How machines are made real: namespace (isolated, Linux), process (no isolation), none (no processes); auto takes the first that works."`
	HostTools bool   `help:"Lend this computer's shell and tools, read-only, to images without them."`
	Addr      string `default:"127.0.0.1:4280" help:"Loopback address of the API; port 0 takes that of the last start, or a free one."`
	Verbose   bool   `short:"v" help:"Log every event to stderr."`
}

// Help is the long help.
func (*Up) Help() string {
	return `Runs in the foreground. Ctrl-C stops the machines it started and nothing else; apps, machines and volumes are kept in the
state directory and are there again at the next start.`
}

// Run runs the platform until ctx ends.
func (u *Up) Run(ctx context.Context, c *console.Console) error {
	dir, err := stateDir(u.Dir)
	if err != nil {
		return err
	}
	level := slog.LevelWarn
	if u.Verbose {
		level = slog.LevelInfo
	}
	p, err := Start(ctx, Options{
		Dir: dir, Addr: u.Addr, Runner: u.Runner, HostTools: u.HostTools,
		Log: slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		return err
	}
	err = c.Result(describe(dir, true, p.endpoint), func(w io.Writer) {
		fmt.Fprintf(w, "flyfleet local: %s\n", p.endpoint.Describe())
		fmt.Fprintf(w, "state in %s\n", dir)
		fmt.Fprintf(w, "in another terminal: eval \"$(flyfleet local env%s)\"\n", u.flag())
	})
	if err == nil {
		<-ctx.Done()
		c.Note("flyfleet local: stopping the machines")
	}
	return errors.Join(err, p.Close(context.WithoutCancel(ctx)))
}

// flag repeats --dir for the user.
func (u *Up) flag() string {
	if u.Dir == "" {
		return ""
	}
	return " --dir " + u.Dir
}

// Down is `flyfleet local down`.
type Down struct{ directory }

// Run asks the platform's process to end and waits until it has.
func (d *Down) Run(ctx context.Context, c *console.Console) error {
	dir, err := stateDir(d.Dir)
	if err != nil {
		return err
	}
	e, up, err := running(dir)
	if err != nil {
		return err
	}
	if up {
		if err := end(ctx, dir, e); err != nil {
			return err
		}
	}
	return c.Result(map[string]any{"stopped": up, "dir": dir}, func(w io.Writer) {
		if up {
			fmt.Fprintln(w, "stopped; the state is kept in", dir)
			return
		}
		fmt.Fprintln(w, "no local platform runs on", dir)
	})
}

// Reset is `flyfleet local reset`.
type Reset struct{ directory }

// Help is the long help.
func (*Reset) Help() string {
	return `Machines leave files that belong to other user ids, which an ordinary user's rm cannot remove. A platform that runs is refused: stop it
first, with flyfleet local down.`
}

// Run deletes the state directory.
func (r *Reset) Run(ctx context.Context, c *console.Console) error {
	dir, err := stateDir(r.Dir)
	if err != nil {
		return err
	}
	_, err = os.Lstat(dir)
	there := err == nil
	if err := flylocal.Remove(ctx, dir, nil); err != nil {
		return err
	}
	return c.Result(map[string]any{"removed": there, "dir": dir}, func(w io.Writer) {
		if there {
			fmt.Fprintln(w, "removed", dir)
			return
		}
		fmt.Fprintln(w, "there is no state in", dir)
	})
}

func end(ctx context.Context, dir string, e Endpoint) error {
	// The platform's directory is locked, so the pid in its record is the holder's and never a stranger's.
	if err := syscall.Kill(e.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("asking process %d to stop: %w", e.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit+10*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, up, err := running(dir)
		if err != nil || !up {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d of the local platform on %s does not end: %w", e.PID, dir, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Status is `flyfleet local status`.
type Status struct{ directory }

// statusResult leaves the token out.
type statusResult struct {
	Running bool   `json:"running"`
	Dir     string `json:"dir"`
	API     string `json:"api,omitempty"`
	Door    string `json:"door,omitempty"`
	Level   string `json:"level,omitempty"`
	Org     string `json:"org,omitempty"`
	PID     int    `json:"pid,omitempty"`
}

func describe(dir string, up bool, e Endpoint) statusResult {
	return statusResult{Running: up, Dir: dir, API: e.API, Door: e.Door, Level: e.Level, Org: e.Org, PID: e.PID}
}

// Run says what runs. The exit code is 0 also when nothing does.
func (s *Status) Run(c *console.Console) error {
	dir, err := stateDir(s.Dir)
	if err != nil {
		return err
	}
	e, up, err := running(dir)
	if err != nil {
		return err
	}
	return c.Result(describe(dir, up, e), func(w io.Writer) {
		if !up {
			fmt.Fprintf(w, "no local platform runs on %s; flyfleet local up starts one\n", dir)
			return
		}
		fmt.Fprintf(w, "running as process %d\n%s\nstate in %s\n", e.PID, e.Describe(), dir)
	})
}

// Env is `flyfleet local env`.
type Env struct{ directory }

// Run prints the variables. Before the first start there is no address to print.
func (v *Env) Run(c *console.Console) error {
	dir, err := stateDir(v.Dir)
	if err != nil {
		return err
	}
	e, found, err := readLast(dir)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("no local platform has ever run on %s: start one with flyfleet local up, in another terminal", dir)
	}
	if _, up, err := running(dir); err == nil && !up {
		c.Note("flyfleet local: the platform on %s does not run now; flyfleet local up starts it under the same addresses", dir)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	all, err := Environment(dir, filepath.Dir(self), e)
	if err != nil {
		return err
	}
	doc := map[string]string{}
	for _, variable := range all {
		doc[variable.Name] = variable.Value
	}
	return c.Result(doc, func(w io.Writer) { export(w, all) })
}
