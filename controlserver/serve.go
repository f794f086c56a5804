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
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/server"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Serve runs the control server until ctx ends, then drains: running commands are ended, their output
// and ends recorded and sent, within the stop budget. What is wrong at start (trust, port, directories)
// is an error at once. ready, if not nil, is called with the port's address when callers are answered.
// It expects to be the process's only business: it adopts and reaps orphans.
func Serve(ctx context.Context, c Config, log *slog.Logger, ready func(net.Addr)) error {
	// Commands that run as our own user must not read our memory or environment.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close this process to others: %w", err)
	}
	parts, err := build(c, log)
	if err != nil {
		return err
	}
	defer parts.close()
	if ready != nil {
		ready(parts.port.Addr())
	}
	failed := make(chan error, 1)
	go func() { failed <- parts.http.Serve(parts.port) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the wire: %w", err)
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

// parts are what a control server runs.
type parts struct {
	grace  time.Duration
	spool  *spool.Spool
	server *server.Server
	probe  *probe.Listener
	port   net.Listener
	http   *http.Server
}

func (p *parts) close() {
	if p.port != nil {
		p.port.Close()
	}
	if p.probe != nil {
		_ = p.probe.Close()
	}
	if p.server != nil {
		_ = p.server.Close()
	}
	if p.spool != nil {
		_ = p.spool.Close()
	}
}

func build(c Config, log *slog.Logger) (*parts, error) {
	trust, err := c.check()
	if err != nil {
		return nil, err
	}
	p := &parts{grace: c.Grace}
	if err := p.fill(c, trust, log); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *parts) fill(c Config, trust token.Trust, log *slog.Logger) error {
	system := systemPaths()
	where, err := findLayout(c.Data, system)
	if err != nil {
		return err
	}
	accounts, err := prepare(&where, system.linked)
	if err != nil {
		return err
	}
	if p.port, err = listener(c.Listen); err != nil {
		return err
	}
	if p.spool, err = spool.Open(where.spool); err != nil {
		return err
	}
	kind := wirev1.SpoolKind_SPOOL_KIND_EPHEMERAL
	if where.durable {
		kind = wirev1.SpoolKind_SPOOL_KIND_DURABLE
	}
	p.server, err = server.New(server.Options{
		Spool: p.spool, Kind: kind, Trust: trust, App: c.App, Machine: c.Machine,
		Accounts: accounts, Workspace: where.shown, BodyTime: c.BodyTime, Log: log,
		Keeper: func(notify func(keeper.Ended)) (keeper.Keeper, error) {
			return keeper.NewLocal(keeper.LocalOptions{Spool: p.spool, Adopt: true, Notify: notify, Log: log})
		},
	})
	if err != nil {
		return err
	}
	if p.probe, err = probe.Listen(c.Run, p.server.Probe, log); err != nil {
		return err
	}
	p.http = httpServer(p.server.Handler(), log)
	log.Info("serving", "build", wire.Build, "address", p.port.Addr().String(), "app", c.App, "machine", c.Machine,
		"epoch", p.server.Status().Epoch, "spool", where.spool, "durable", where.durable,
		"workspace", where.workspace, "exec_user", accounts.Default().Name, "exec_user_separate", accounts.Separate(), "pid", os.Getpid())
	return nil
}

// prepare makes the workspace and finds who uses it.
func prepare(where *layout, linked string) (*account.Accounts, error) {
	accounts, err := account.Detect("")
	if err != nil {
		return nil, err
	}
	err = where.prepare(linked, func(dir string) error {
		who := accounts.Default().Switch
		if who == nil {
			return nil
		}
		return os.Chown(dir, int(who.UID), int(who.GID))
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(where.spool), 0o755); err != nil {
		return nil, fmt.Errorf("make the spool's parent: %w", err)
	}
	return account.Detect(where.shown)
}

func httpServer(h http.Handler, log *slog.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       15 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: server.MaxStreams,
			MaxReadFrameSize:     1 << 20,
			// Requests are small but for stdin; a stranger's bytes wait here until they are refused.
			MaxReceiveBufferPerStream:     512 << 10,
			MaxReceiveBufferPerConnection: 2 << 20,
			// A dead peer is cut in half a minute; the spool has what it did not read.
			SendPingTimeout:  15 * time.Second,
			PingTimeout:      10 * time.Second,
			WriteByteTimeout: 30 * time.Second,
		},
	}
}

// Tune fits the Go runtime to a small guest in a small machine.
func Tune() {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)
}
