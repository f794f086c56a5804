// Package flylocal is a Fly platform on one computer: the Machines API (/v1), GraphQL (/graphql), the REST paths of the
// web side (/api/v1) and the registry (/v2) on one loopback port, with real machines behind them where the chosen runner
// starts any. State lives in one directory and survives restarts. docs/design/flylocal.md says what is faithful to Fly
// and what was chosen where no source tells.
package flylocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/images"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/netdoor"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/registry"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Options say how a platform is started. Only Dir is required.
type Options struct {
	// Dir is the state directory; it is made when it is missing. One platform at a time may have it.
	Dir string
	// Addr is where HTTP is served, host:port; empty is a free port on 127.0.0.1. Only loopback is taken.
	Addr string
	// SocksAddr is where the door to the private networks is served; empty is a free port on 127.0.0.1.
	SocksAddr string
	// Runner is "namespace", "process", "none", or "auto" (also when empty): namespace where this computer can, else
	// process.
	Runner string
	// HostTools lends the host's shell and tools to images that have none.
	HostTools bool
	// Egress is what machines may reach on this computer, such as a runtime that they call back: nothing, unless named here. The
	// process runner's machines reach it all anyway, where it really is.
	Egress []runner.Egress
	// Token is what clients must send; empty keeps the one in Dir, or makes one.
	Token string
	// Org is the slug of the one organization; empty keeps the one in Dir, or is "flylocal".
	Org string
	// Region is where machines go that name none; empty is "ams".
	Region string
	// SettleDelay is how long a passing state lasts at least; zero is 40 ms. A negative value is no delay.
	SettleDelay time.Duration
	// UnbindDelay is how long a volume stays bound after its machine is gone; zero is 100 ms. A negative value is no
	// delay.
	UnbindDelay time.Duration
	// Log takes one line an event; nil drops them.
	Log *slog.Logger
}

const (
	defaultSettle = 40 * time.Millisecond
	defaultUnbind = 100 * time.Millisecond
	loopbackAny   = "127.0.0.1:0"
)

// Platform is a running platform.
type Platform struct {
	// Dir is the state directory, absolute.
	Dir string
	// Machines looks at machines and dials into them without going over HTTP.
	Machines *engine.World
	// Faults disturbs the platform and tells which calls were made.
	Faults *faults.Control

	store    *state.Store
	registry *registry.Store
	runner   runner.Runner
	images   *images.Finder
	api      net.Listener
	socks    net.Listener
	server   *http.Server
	cancel   context.CancelFunc
	serving  sync.WaitGroup
	closed   sync.Once
	closeErr error
}

// Start opens the state directory, boots the machines that ran when it was last closed, and serves. The caller owns the
// platform until Close returns; ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Platform, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	p := &Platform{Dir: o.Dir}
	if err := p.open(ctx, o); err != nil {
		return nil, errors.Join(err, p.release())
	}
	return p, nil
}

func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("flylocal: a state directory is required")
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, fmt.Errorf("flylocal: %w", err)
	}
	if o.Addr == "" {
		o.Addr = loopbackAny
	}
	if o.SocksAddr == "" {
		o.SocksAddr = loopbackAny
	}
	for _, addr := range []string{o.Addr, o.SocksAddr} {
		if err := requireLoopback(addr); err != nil {
			return o, err
		}
	}
	o.SettleDelay = orDefault(o.SettleDelay, defaultSettle)
	o.UnbindDelay = orDefault(o.UnbindDelay, defaultUnbind)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

func requireLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("flylocal: address %q: want host:port: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("flylocal: address %q is not loopback: machines here run commands for whoever holds the token; use 127.0.0.1", addr)
	}
	return nil
}

// open does what can fail, in order; release undoes what was done.
func (p *Platform) open(ctx context.Context, o Options) error {
	var err error
	if p.store, err = state.Open(o.Dir); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	if p.registry, err = registry.Open(filepath.Join(o.Dir, "registry")); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	cache := filepath.Join(o.Dir, "cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	p.runner, err = pickRunner(ctx, o.Runner, runner.Config{StateDir: o.Dir, CacheDir: cache, HostTools: o.HostTools, Egress: o.Egress, Log: o.Log})
	if err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	var listen net.ListenConfig
	if p.api, err = listen.Listen(ctx, "tcp", o.Addr); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	if p.socks, err = listen.Listen(ctx, "tcp", o.SocksAddr); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	p.images = &images.Finder{Store: p.registry, Host: p.api.Addr().String(), Pretend: p.runner.Name() == "none"}
	p.Machines, err = engine.Open(ctx, engine.Config{
		Store: p.store, Runner: p.runner, Images: p.images, Log: o.Log, Token: o.Token, Org: o.Org, Region: o.Region,
		Settle: o.SettleDelay, Unbind: o.UnbindDelay,
	})
	if err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	p.Faults = faults.NewControl(p.Machines, o.Dir, o.SettleDelay, o.UnbindDelay)
	if err := p.announce(); err != nil {
		return err
	}
	p.serve(o) //nolint:contextcheck // What is served outlives the context of Start.
	return nil
}

// serve starts the two doors; they end when Close cancels them. They outlive the context of Start on purpose.
func (p *Platform) serve(o Options) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.server = &http.Server{
		Handler: p.handler(o.Log), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	p.serving.Go(func() {
		if err := p.server.Serve(p.api); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("the API has ended", "error", err)
		}
	})
	door := netdoor.New(netdoor.Options{Platform: road{p.Machines}, Log: o.Log})
	p.serving.Go(func() {
		if err := door.Serve(ctx, p.socks); err != nil {
			o.Log.Error("the SOCKS door has ended", "error", err)
		}
	})
}

// URL is where the platform serves, "http://127.0.0.1:port"; it is FLY_FLAPS_BASE_URL, FLY_API_BASE_URL and
// FLY_UIEX_BASE_URL in one.
func (p *Platform) URL() string { return "http://" + p.RegistryHost() }

// RegistryHost is the registry's host:port. Like Fly's it wants the token as password; the user name is not looked at.
func (p *Platform) RegistryHost() string { return p.api.Addr().String() }

// SocksAddr is where the SOCKS5 door listens.
func (p *Platform) SocksAddr() string { return p.socks.Addr().String() }

// Token is what clients must send, and Org the organization it sees.
func (p *Platform) Token() string { return p.Machines.Token() }

// Org is the slug of the organization.
func (p *Platform) Org() string { return p.Machines.Org() }

// Level says which runner is at work and how far it isolates.
func (p *Platform) Level() string { return p.runner.Level() }

// closeTimeout bounds how long connections and machines get to end in peace.
const closeTimeout = 30 * time.Second

// Close stops serving, stops the machines that the platform started, and keeps the state: what ran runs again after the
// next Start. When ctx ends first, machines are killed. Further calls answer what the first one did.
func (p *Platform) Close(ctx context.Context) error {
	p.closed.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		p.cancel()
		err := p.server.Shutdown(ctx)
		if err != nil {
			err = p.server.Close()
		}
		p.serving.Wait()
		p.closeErr = errors.Join(err, p.Machines.Close(ctx), os.Remove(endpointPath(p.Dir)), p.release())
	})
	return p.closeErr
}

// release lets go of what open took, in reverse.
func (p *Platform) release() error {
	var err error
	for _, ln := range []net.Listener{p.socks, p.api} {
		if ln != nil {
			ln.Close()
		}
	}
	if p.runner != nil {
		err = errors.Join(err, p.runner.Close())
	}
	if p.registry != nil {
		err = errors.Join(err, p.registry.Close())
	}
	if p.store != nil {
		err = errors.Join(err, p.store.Close())
	}
	return err
}
