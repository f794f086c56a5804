// Command flyfleet-runtime is a replica of the runtime: it runs agents' turns against tenants' machines.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-runtime/erase"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet-runtime/keys"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/daemon"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

type cli struct {
	Serve   serve         `cmd:"" default:"withargs" help:"Run a replica until SIGTERM: it then hands its sessions over."`
	Migrate migrate       `cmd:"" help:"Bring the database's schema to this build's, and end."`
	Keys    keys.Command  `cmd:"" help:"API keys of tenants."`
	Erase   erase.Command `cmd:"" help:"Take what was said out of a session's journal, for good."`
	Version version       `cmd:"" help:"Print the build."`
}

type serve struct {
	daemon.Config
	LogLevel slog.Level `env:"FLYFLEET_LOG_LEVEL" default:"INFO" help:"DEBUG, INFO, WARN or ERROR."`
}

// Run is a replica's life.
func (s *serve) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: s.LogLevel}))
	return daemon.Run(ctx, s.Config, daemon.SecretsFrom(os.Getenv), log)
}

type migrate struct{}

// Run migrates.
func (migrate) Run() error {
	url, err := daemon.SecretsFrom(os.Getenv).Database()
	if err != nil {
		return err
	}
	return store.Migrate(context.Background(), url)
}

type version struct{}

// Run prints one line.
func (version) Run() error {
	_, err := fmt.Fprintf(os.Stdout, "flyfleet-runtime %s wire %d\n", wire.Build, wire.Version)
	return err
}

func main() {
	var c cli
	run := kong.Parse(&c, kong.Name("flyfleet-runtime"), kong.Description("A replica of the runtime."))
	if err := run.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "flyfleet-runtime:", err)
		os.Exit(1)
	}
}
