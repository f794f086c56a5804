//go:build linux

// Command flyfleet-controlserver is the one inbound surface of a tenant machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

type cli struct {
	Serve   serve   `cmd:"" help:"Serve the wire: run commands for callers that prove themselves."`
	Calls   calls   `cmd:"" hidden:"" help:"Answer callers, for a keeper that passed its link and port."`
	Probe   ask     `cmd:"" help:"Ask the control server of this machine how it is; one line of JSON."`
	Version version `cmd:"" help:"Print build and wire version."`
}

type serve struct {
	Trust   string        `env:"FLYFLEET_TRUST" help:"Public root keys, comma-separated (fftrust1.…)."`
	Listen  string        `env:"FLYFLEET_LISTEN" default:"[::]:8080" help:"Address of the control port."`
	Data    string        `env:"FLYFLEET_DATA" help:"Directory of workspace and spool; by default the volume's."`
	RunDir  string        `env:"FLYFLEET_RUN" default:"/run/flyfleet" help:"Directory of the probe's socket."`
	App     string        `env:"FLY_APP_NAME" help:"App of this machine."`
	Machine string        `env:"FLY_MACHINE_ID" help:"Id of this machine."`
	Grace   time.Duration `env:"FLYFLEET_GRACE" default:"15s" help:"Time between TERM and KILL of commands at a stop."`
}

// Run keeps a server until SIGTERM or SIGINT.
func (s *serve) Run() error {
	return s.until(func(ctx context.Context, c controlserver.Config, log *slog.Logger) error {
		return controlserver.Serve(ctx, c, []string{"/proc/self/exe", "calls"}, log)
	})
}

type calls struct{ serve }

// Run answers callers until SIGTERM or SIGINT.
func (c *calls) Run() error { return c.until(controlserver.ServeCalls) }

func (s *serve) until(run func(context.Context, controlserver.Config, *slog.Logger) error) error {
	// A hang-up or a lost log reader means nothing to a daemon. Caught, not ignored: what a process
	// ignores its children ignore too.
	unheeded := make(chan os.Signal, 1)
	signal.Notify(unheeded, syscall.SIGHUP, syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	controlserver.Tune()
	return run(ctx, controlserver.Config{
		Trust: s.Trust, Listen: s.Listen, Data: s.Data, Run: s.RunDir, App: s.App, Machine: s.Machine, Grace: s.Grace,
	}, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
}

type ask struct {
	JSON    bool          `help:"Print JSON (the only form there is)."`
	Quiesce time.Duration `xor:"door" help:"Close the door to new commands for so long, if none runs."`
	Resume  bool          `xor:"door" help:"Open the door again."`
	RunDir  string        `env:"FLYFLEET_RUN" default:"/run/flyfleet" help:"Directory of the probe's socket."`
}

// Run asks once.
func (a *ask) Run() error {
	if a.Quiesce < 0 || a.Quiesce > probe.MaxQuiesce {
		return fmt.Errorf("--quiesce wants 0 to %s", probe.MaxQuiesce)
	}
	answer, err := probe.Ask(context.Background(), a.RunDir, probe.Question{QuiesceMS: a.Quiesce.Milliseconds(), Resume: a.Resume})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

type version struct{}

// Run prints one line.
func (version) Run() error {
	_, err := fmt.Fprintf(os.Stdout, "flyfleet-controlserver %s wire %d\n", wire.Build, wire.Version)
	return err
}

func main() {
	var c cli
	run := kong.Parse(&c, kong.Name("flyfleet-controlserver"), kong.Description("The one inbound surface of a tenant machine."))
	if err := run.Run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "flyfleet-controlserver:", err)
		os.Exit(1)
	}
}
