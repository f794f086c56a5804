// Package command is the grammar of the flyfleet program: which verbs there are, and how each ends.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/cat"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/chat"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/cp"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/demo"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/execute"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/keygen"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/kill"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/logs"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ls"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/machines"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ps"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/redeploy"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/setup"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

type grammar struct {
	JSON bool `help:"Print one JSON document instead of text."`

	Local    local.Command    `cmd:"" help:"The Fly platform on this computer."`
	Exec     execute.Command  `cmd:"" help:"Run a command on a tenant's machine."`
	Cp       cp.Command       `cmd:"" help:"Copy files and trees between this computer and a tenant's machine."`
	Ls       ls.Command       `cmd:"" help:"List files of a tenant's machine."`
	Cat      cat.Command      `cmd:"" help:"Print files of a tenant's machine."`
	Ps       ps.Command       `cmd:"" help:"List your commands on a tenant's machine."`
	Logs     logs.Command     `cmd:"" help:"Show the output of a command."`
	Kill     kill.Command     `cmd:"" help:"Send a signal to a command."`
	Machines machines.Command `cmd:"" help:"List the machines of the fleet."`
	Setup    setup.Command    `cmd:"" name:"setup-fly-app" help:"Prepare a tenant's app: network, address, image."`
	Redeploy redeploy.Command `cmd:"" name:"redeploy-fleet" help:"Swap the image of a fleet, or of one machine."`
	Chat     chat.Command     `cmd:"" help:"Talk to an agent on the runtime."`
	Keygen   keygen.Command   `cmd:"" help:"Make root and signing keys."`
	Demo     demo.Command     `cmd:"" hidden:"" help:"Show the main job on this computer."`
	Version  version          `cmd:"" help:"Print the version."`

	DemoRuntime demo.RuntimeCommand `cmd:"" name:"demo-runtime" hidden:"" help:"Show what survives the death of the runtime."`
}

const about = `A fleet of tenant machines: set up, used, and swapped to a new image.

Everything about the platform comes from the environment: FLY_API_TOKEN, FLY_ORG, FLY_FLAPS_BASE_URL, FLY_API_BASE_URL,
FLY_REGISTRY_HOST, FLYFLEET_SIGNING_KEY, FLYFLEET_TRANSPORT. For the platform on this computer,
eval "$(flyfleet local env)" sets all of them.`

// Exit codes of the program. A verb may have others of its own and documents them.
const (
	exitFailed = 1
	exitUsage  = 2
)

// Main runs one command line and returns the exit code. SIGINT, SIGTERM and SIGHUP cancel the command's context.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	con := &console.Console{In: in, Out: out, Err: errOut}
	var g grammar
	exited := -1
	parser, err := kong.New(
		&g,
		kong.Name("flyfleet"),
		kong.Description(about),
		kong.UsageOnError(),
		kong.Writers(out, errOut),
		kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(con, settings.FromProcess()),
	)
	if err != nil {
		con.Note("flyfleet: %v", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 { // --help has been printed
		return exited
	}
	if err != nil {
		return usage(con, args, err)
	}
	con.JSON = g.JSON
	return code(con, parsed.Run())
}

func usage(con *console.Console, args []string, err error) int {
	con.Note("flyfleet: %v", err)
	con.Note("flyfleet --help lists the commands.")
	if len(args) > 0 && args[0] == "exec" {
		return 125 // what exec says of its own failures, so that 2 stays the command's
	}
	return exitUsage
}

func code(con *console.Console, err error) int {
	var exit *console.Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if exit.Err != nil {
			con.Note("flyfleet: %v", exit.Err)
		}
		return exit.Code
	}
	con.Note("flyfleet: %v", err)
	return exitFailed
}

type version struct{}

type versionResult struct {
	Build    string `json:"build"`
	Wire     int    `json:"wire"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the build, and the highest wire version that it speaks.
func (*version) Run(c *console.Console) error {
	v := versionResult{wire.Build, wire.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	return c.Result(v, func(w io.Writer) {
		fmt.Fprintf(w, "flyfleet %s (wire %d, %s, %s)\n", v.Build, v.Wire, v.Go, v.Platform)
	})
}
