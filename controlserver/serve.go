//go:build linux

package controlserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/server"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/cork"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Serve runs a control server until ctx ends, then drains: running commands are ended, their output and
// ends recorded and sent, within the stop budget. What is wrong at start (trust, port, directories) is
// an error at once.
//
// The calling process becomes the keeper, and starts the server beside it with the command given, which
// must call ServeCalls. It expects to be the process's only business, from its main goroutine: all
// children of the process are taken for its own.
func Serve(ctx context.Context, c Config, command []string, log *slog.Logger) error {
	if err := conceal(); err != nil {
		return err
	}
	if _, err := c.check(); err != nil {
		return err
	}
	where, accounts, err := c.place()
	if err != nil {
		return err
	}
	if err := where.make(accounts); err != nil {
		return err
	}
	port, err := listener(c.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = port.Close() }()
	if err := probe.MakeDir(c.Run); err != nil {
		return err
	}
	sp, err := spool.Open(where.spool, c.aside())
	if err != nil {
		return err
	}
	defer func() { _ = sp.Close() }()
	file, err := port.File()
	if err != nil {
		return fmt.Errorf("open the control port: %w", err)
	}
	defer file.Close()
	if err := sp.Reserve(); err != nil {
		log.Warn("no room is set aside for records", "error", err)
	}
	house := &keeper.House{
		Spool: sp, Listener: file, Server: command, Env: serverEnv(),
		StopTime: stopBudget + 2*time.Second, Log: log.With("part", "keeper"),
	}
	return house.Supervise(ctx)
}

// serverEnv lets the server's goroutines begin with stacks of the size that they come to need: each call
// has one, and would grow it in steps by copying.
func serverEnv() []string {
	return append(os.Environ(), "GODEBUG=adaptivestackstart=1,"+os.Getenv("GODEBUG"))
}

// ServeCalls is the server's half of Serve: it answers callers until ctx ends or the keeper is gone.
func ServeCalls(ctx context.Context, c Config, log *slog.Logger) error {
	if err := conceal(); err != nil {
		return err
	}
	parts, err := build(context.WithoutCancel(ctx), c, log)
	if err != nil {
		return err
	}
	defer parts.close()
	failed := make(chan error, 1)
	go func() { failed <- parts.http.Serve(cork.Listener(parts.port)) }()
	if err := parts.keeper.Serving(); err != nil {
		return err
	}
	// Only now: who reads this may count on the keeper to know it too.
	parts.serving.Info("serving")
	select {
	case err := <-failed:
		return fmt.Errorf("serve the wire: %w", err)
	case <-parts.keeper.Done():
		return errors.New("the keeper is gone")
	case <-ctx.Done():
	}
	budget, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBudget)
	defer cancel()
	parts.server.Drain(budget, parts.grace)
	// A moment for answers on their way, none for idle connections.
	last, cancelLast := context.WithTimeout(budget, 2*time.Second)
	defer cancelLast()
	if err := parts.http.Shutdown(last); err != nil {
		_ = parts.http.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the wire: %w", err)
	}
	return nil
}

// conceal keeps our memory and environment from commands that run as our own user.
func conceal() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close this process to others: %w", err)
	}
	return nil
}

// parts are what a server runs.
type parts struct {
	grace  time.Duration
	keeper *keeper.Remote
	server *server.Server
	probe  *probe.Listener
	port   net.Listener
	http   *http.Server
	// serving is the log with what is to be told once callers are answered.
	serving *slog.Logger
}

func (p *parts) close() {
	if p.port != nil {
		p.port.Close()
	}
	if p.probe != nil {
		_ = p.probe.Close()
	}
	if p.server != nil {
		p.server.Close()
	}
}

func build(ctx context.Context, c Config, log *slog.Logger) (*parts, error) {
	trust, err := c.check()
	if err != nil {
		return nil, err
	}
	p := &parts{grace: c.Grace}
	if err := p.fill(ctx, c, trust, log); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) fill(ctx context.Context, c Config, trust token.Trust, log *slog.Logger) error {
	where, accounts, err := c.place()
	if err != nil {
		return err
	}
	if p.port, err = net.FileListener(os.NewFile(keeper.ListenFD, "control port")); err != nil {
		return fmt.Errorf("take over the control port: %w", err)
	}
	kind := wirev1.SpoolKind_SPOOL_KIND_EPHEMERAL
	if where.durable {
		kind = wirev1.SpoolKind_SPOOL_KIND_DURABLE
	}
	if err := probe.MakeDir(c.Run); err != nil {
		return err
	}
	p.server, err = server.New(ctx, server.Options{
		Spool: spool.Join(where.spool, c.aside()), Kind: kind, Trust: trust, App: c.App, Machine: c.Machine,
		Accounts: accounts, Workspace: where.shown, Run: c.Run, BodyTime: c.BodyTime, Log: log,
		Keeper: func(notify func(keeper.Ended)) (keeper.Keeper, []keeper.Live, error) {
			remote, lives, err := keeper.Dial(keeper.LinkFD, notify)
			p.keeper = remote
			return remote, lives, err
		},
	})
	if err != nil {
		return err
	}
	if p.probe, err = probe.Listen(c.Run, p.server.Probe, log); err != nil {
		return err
	}
	p.http = server.HTTP(p.server.Handler(), log)
	p.serving = log.With("build", wire.Build, "address", p.port.Addr().String(), "app", c.App, "machine", c.Machine,
		"epoch", p.server.Status().Epoch, "spool", where.spool, "durable", where.durable,
		"workspace", where.workspace, "exec_user", accounts.Default().Name, "exec_user_separate", accounts.Separate(), "pid", os.Getpid())
	return nil
}

// place finds where things lie and who uses them.
func (c *Config) place() (layout, *account.Accounts, error) {
	where, err := findLayout(c.Data, systemPaths())
	if err != nil {
		return layout{}, nil, err
	}
	accounts, err := account.Detect(where.shown)
	return where, accounts, err
}

// make makes the directories.
func (l *layout) make(accounts *account.Accounts) error {
	if err := os.MkdirAll(l.workspace, 0o755); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	if who := accounts.Default().Switch; who != nil {
		if err := os.Chown(l.workspace, int(who.UID), int(who.GID)); err != nil {
			return fmt.Errorf("give the workspace to the exec user: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(l.spool), 0o755); err != nil {
		return fmt.Errorf("make the spool's parent: %w", err)
	}
	return nil
}
