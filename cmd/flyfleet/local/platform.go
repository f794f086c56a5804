package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// Options say how a platform is started.
type Options struct {
	// Dir holds its whole state, absolute.
	Dir string
	// Addr is host:port of the API, on loopback; port 0 is the one of the last start on this directory where that is
	// free, since references to images hold it, otherwise any.
	Addr string
	// Runner is auto, namespace, process or none.
	Runner    string
	HostTools bool
	Log       *slog.Logger
	// Closer, if any, is closed after the platform.
	Closer io.Closer
}

// Platform is a running local platform.
type Platform struct {
	inner    *flylocal.Platform
	endpoint Endpoint
	options  Options
}

// Start runs a platform in this process, until Close.
func Start(ctx context.Context, o Options) (*Platform, error) {
	last, _, err := readLast(o.Dir)
	if err != nil {
		return nil, err
	}
	if e, up, err := running(o.Dir); err != nil {
		return nil, err
	} else if up {
		return nil, fmt.Errorf("a local platform runs on %s already (process %d, http://%s): flyfleet local down stops it, --dir takes another place", o.Dir, e.PID, e.API)
	}
	addr := o.Addr
	if _, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		addr = cmp.Or(ifFree(ctx, last.API), addr)
	}
	inner, err := flylocal.Start(ctx, flylocal.Options{
		Dir: o.Dir, Addr: addr, SocksAddr: ifFree(ctx, last.Door), Runner: o.Runner, HostTools: o.HostTools, Log: o.Log,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("local platform: something else listens on %s; --addr 127.0.0.1:0 takes a free port: %w", o.Addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("local platform: %w", err)
	}
	p := &Platform{inner: inner, options: o, endpoint: Endpoint{
		API: inner.RegistryHost(), Door: inner.SocksAddr(), Level: inner.Level(), Org: inner.Org(), Token: inner.Token(), PID: os.Getpid(),
	}}
	if err := writeLast(o.Dir, p.endpoint); err != nil {
		return nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// ifFree is addr when it can be listened on, otherwise "": a door elsewhere is better than none.
func ifFree(ctx context.Context, addr string) string {
	if addr == "" {
		return ""
	}
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", addr)
	if err != nil {
		return ""
	}
	ln.Close()
	return addr
}

// Endpoint is where the platform answers.
func (p *Platform) Endpoint() Endpoint { return p.endpoint }

// closeLimit bounds the stop of all machines: each has its own stop timeout, and they stop side by side.
const closeLimit = 60 * time.Second

// Close stops the machines that this platform started and keeps its state.
func (p *Platform) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	err := p.inner.Close(ctx)
	if p.options.Closer != nil {
		err = errors.Join(err, p.options.Closer.Close())
	}
	return err
}
