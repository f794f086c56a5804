package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/telemetry"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// requestTime is how long requests under way have at a stop.
const requestTime = 5 * time.Second

// Run is a replica's life: it serves until ctx ends, then hands over what it has.
func Run(ctx context.Context, c Config, s Secrets, log *slog.Logger) error {
	traces, err := telemetry.Start(ctx, wire.Build, log)
	if err != nil {
		return err
	}
	defer traces.Close() //nolint:contextcheck // it sends the last spans when ctx has ended
	log = telemetry.Logger(log)
	database, err := s.Database()
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx, database); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{URL: database, TTL: c.TTL, TenantCap: c.TenantCap, Log: log})
	if err != nil {
		return err
	}
	defer db.Close()
	back, err := newWayBack(c, s)
	if err != nil {
		return err
	}
	all, err := newAgents(c, s, back)
	if err != nil {
		return err
	}
	sealer, err := newSealer(s)
	if err != nil {
		return err
	}
	turns, closing, err := newDriver(ctx, c, s, db, all, sealer, back, traces, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := closing(); err != nil {
			log.Warn("close the sessions' places", "error", err)
		}
	}()
	face, err := newGateway(c, db, all, sealer, back, traces, log)
	if err != nil {
		return err
	}
	defer face.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	replica, err := executor.New(ctx, executor.Options{
		Store: db, Runner: turns, Address: listener.Addr().String(), Version: wire.Build, Sessions: c.Sessions,
		BeatEvery: c.TTL / 5, DrainTime: c.DrainTime, KeepOutput: c.KeepOutput, KeepSessions: c.KeepSessions, Log: log,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return serve(ctx, listener, replica, db, face, log)
}

// newDriver puts together what runs turns.
func newDriver(ctx context.Context, c Config, s Secrets, db *store.Store, all *agents, sealer secrets.Sealer, back *wayBack, traces trace.TracerProvider, log *slog.Logger) (*driver.Driver, func() error, error) {
	places, closing, err := machines(ctx, c, s, db, log)
	if err != nil {
		return nil, nil, err
	}
	turns, err := driver.New(driver.Options{
		Store: db, Agents: all, Machines: places, Sealer: sealer, Known: s.known(), CardTime: c.CardTime, Jitter: rand.Float64, Traces: traces, Log: log,
		WayBack: back.driver(),
	})
	return turns, closing, err
}

// newSealer is nil when there is no key: then submissions come without credentials.
func newSealer(s Secrets) (secrets.Sealer, error) {
	if s.SealingKeys == "" {
		return nil, nil
	}
	ring, err := secrets.ParseKeyring(s.SealingKeys)
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_SEALING_KEYS: %w", err)
	}
	return ring, nil
}

// serve runs the replica and its listener until ctx ends or one of them fails. Sessions are handed over while requests are
// still answered, the last of them.
func serve(ctx context.Context, listener net.Listener, replica *executor.Executor, db *store.Store, face *gateway.Gateway, log *slog.Logger) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := &http.Server{
		Handler:           (&own{store: db, executor: replica, stopping: ctx.Done(), rest: face}).handler(),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		Protocols:   new(http.Protocols),
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("serve: %w", err))
		}
	})
	log.InfoContext(ctx, "serving", "address", listener.Addr().String(), "build", wire.Build)
	err := replica.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	face.Close()
	last, cancel := context.WithTimeout(requests, requestTime)
	defer cancel()
	if shut := server.Shutdown(last); shut != nil {
		cut()
		_ = server.Close()
	}
	parts.Wait()
	log.Info("stopped")
	return err
}
