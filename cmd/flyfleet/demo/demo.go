// Package demo is the verb that shows the main job on this computer: a fleet of three tenants, a file written on each
// machine, a new image, a plan of one line per machine, and the files still there.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// Command is `flyfleet demo`, which make demo runs.
type Command struct {
	Runner string `default:"auto" enum:"auto,namespace,process" help:"How the machines are made real: auto, namespace or process."`
	Source string `default:"." type:"existingdir" help:"Checkout with examples/ and terraform/; the demo works in its .demo/."`
	Keep   bool   `help:"Leave the fleet's state in .demo/ instead of destroying it."`

	// binaries is where a test built the programs, which otherwise lie beside this one.
	binaries string
}

var tenants = []string{"ada", "bea", "cleo"}

const prefix = "demo"

// show is one run of the demo.
type show struct {
	*Command
	con    *console.Console
	dir    string // .demo
	config string // the copied example
	// tenants of the fleet.
	tenants []string
	run     *children
	step    int
}

// Run runs the demo. Whatever happens, no process of it is left.
func (d *Command) Run(ctx context.Context, c *console.Console) error {
	err := d.perform(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("demo: interrupted; its machines are stopped (%w)", err)
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	}
	_, err = fmt.Fprintf(c.Out, "demo: ok tenants=%d changed_lines_per_machine=1 workspace_survived=yes\n", len(tenants))
	return err
}

func (d *Command) perform(ctx context.Context, c *console.Console) error {
	source, err := locate(d.Source, &d.binaries)
	if err != nil {
		return err
	}
	s := &show{Command: d, con: c, dir: filepath.Join(source, ".demo"), tenants: tenants}
	if err := s.prepare(ctx, source); err != nil {
		return err
	}
	platform, err := s.platform(ctx)
	if err != nil {
		return err
	}
	// The platform's own Close has limits; the context may be over already.
	err = errors.Join(s.play(ctx), platform.Close(context.WithoutCancel(ctx)))
	if s.Keep {
		return err
	}
	return errors.Join(err, s.remove(context.WithoutCancel(ctx)))
}

// locate is the checkout's whole path. The programs lie beside this one, unless a test has said where.
func locate(checkout string, binaries *string) (source string, err error) {
	if *binaries == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		*binaries = filepath.Dir(self)
	}
	return filepath.Abs(checkout)
}

// say tells the audience what comes next.
func (s *show) say(format string, args ...any) {
	s.step++
	fmt.Fprintf(s.con.Out, "%d. %s\n", s.step, fmt.Sprintf(format, args...))
}

func (s *show) tell(format string, args ...any) {
	fmt.Fprintf(s.con.Out, "   %s\n", fmt.Sprintf(format, args...))
}

// stateDir holds the platform's state.
func (s *show) stateDir() string { return filepath.Join(s.dir, "platform") }

// removeLimit bounds the clean-up after the demo, which goes on when the demo was interrupted.
const removeLimit = time.Minute

// remove deletes the platform's state, this run's or what a killed one left.
func (s *show) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeLimit)
	defer cancel()
	return flylocal.Remove(ctx, s.stateDir(), nil)
}

// prepare copies the example, so that nothing is written beside it.
func (s *show) prepare(ctx context.Context, source string) error {
	for _, program := range []string{"flyfleet-controlserver", "terraform-provider-flyfleet"} {
		if _, err := os.Stat(filepath.Join(s.binaries, program)); err != nil {
			return fmt.Errorf("%w; run make build", err)
		}
	}
	if err := s.remove(ctx); err != nil {
		return fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	for _, part := range []string{"config", "logs"} {
		if err := os.RemoveAll(filepath.Join(s.dir, part)); err != nil {
			return fmt.Errorf("cleaning up after an earlier run: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o755); err != nil {
		return err
	}
	for _, part := range []string{"examples/local-fleet", "terraform/modules/tenant"} {
		if err := copyConfig(filepath.Join(source, part), filepath.Join(s.dir, "config", part)); err != nil {
			return fmt.Errorf("run it in a checkout, or name one with --source: %w", err)
		}
	}
	s.config = filepath.Join(s.dir, "config", "examples", "local-fleet")
	return nil
}

// copyConfig copies the Terraform files of one folder.
func copyConfig(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.tf"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no Terraform files", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(f)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// platform starts the demo's own platform on free ports.
func (s *show) platform(ctx context.Context) (*local.Platform, error) {
	log, err := os.Create(filepath.Join(s.dir, "logs", "platform.log"))
	if err != nil {
		return nil, err
	}
	dir := s.stateDir()
	p, err := local.Start(ctx, local.Options{
		Dir: dir, Addr: "127.0.0.1:0", Runner: s.Runner, HostTools: true,
		Log: slog.New(slog.NewTextHandler(log, nil)), Closer: log,
	})
	if err != nil {
		log.Close()
		return nil, err
	}
	s.say("A Fly platform on this computer: %s", p.Endpoint().Describe())
	variables, err := local.Environment(dir, s.binaries, p.Endpoint())
	if err != nil {
		return nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}
	s.run = newChildren(
		filepath.Join(s.dir, "logs"), variables,
		"TF_VAR_prefix="+prefix,
		`TF_VAR_tenants=["`+strings.Join(s.tenants, `","`)+`"]`,
		"TF_VAR_control_server="+filepath.Join(s.binaries, "flyfleet-controlserver"),
		"TF_IN_AUTOMATION=1", "TF_INPUT=0",
	)
	return p, nil
}
