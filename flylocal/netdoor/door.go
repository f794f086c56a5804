package netdoor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// handshakeTimeout bounds how long a client may take to say where it wants to go.
	handshakeTimeout = 10 * time.Second
	// defaultAcceptTimeout bounds how long a flycast connection waits for a machine to be up and to accept.
	defaultAcceptTimeout = 30 * time.Second
	// maxConnections bounds the door's goroutines and descriptors; a client over it waits in the listen queue.
	maxConnections = 4096
)

// Options say how a Door is made.
type Options struct {
	Platform Platform
	// Network is the network of clients that name none; "" is "default".
	Network string
	// AcceptTimeout bounds waking a machine and waiting until it accepts; zero is 30 s.
	AcceptTimeout time.Duration
	// Log takes one line for each refused or broken connection; nil drops them.
	Log *slog.Logger
}

// Door is the SOCKS5 server.
type Door struct {
	platform      Platform
	network       string
	acceptTimeout time.Duration
	log           *slog.Logger
}

// New makes a door; nothing listens before Serve.
func New(o Options) *Door {
	d := &Door{platform: o.Platform, network: o.Network, acceptTimeout: o.AcceptTimeout, log: o.Log}
	if d.network == "" {
		d.network = "default"
	}
	if d.acceptTimeout <= 0 {
		d.acceptTimeout = defaultAcceptTimeout
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	return d
}

// Serve answers clients on ln until ctx is done or ln fails. It closes ln, breaks the connections that are open and
// returns when the last of them is gone; after ctx it returns nil.
func (d *Door) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	slots := make(chan struct{}, maxConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			ln.Close()
			return fmt.Errorf("accept SOCKS clients on %s: %w", ln.Addr(), err)
		}
		wg.Go(func() {
			defer func() { <-slots }()
			d.serveConn(ctx, conn)
		})
	}
}

func (d *Door) serveConn(ctx context.Context, client net.Conn) {
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	if err := client.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return
	}
	r := bufio.NewReader(client)
	req, err := handshake(r, client)
	if err != nil {
		var refused *protocolError
		if errors.As(err, &refused) {
			err = errors.Join(err, answer(client, refused.code))
		}
		d.log.Warn("socks client", "error", err)
		return
	}
	if err := client.SetDeadline(time.Time{}); err != nil {
		return
	}
	network := req.user
	if network == "" {
		network = d.network
	}
	machine, err := d.connect(ctx, network, req.host, req.port)
	if err != nil {
		d.log.Warn("socks connect refused", "network", network, "host", req.host, "port", req.port, "error", err)
	}
	if werr := answer(client, replyTo(err)); err != nil || werr != nil {
		if machine != nil {
			machine.Close()
		}
		return
	}
	relay(ctx, buffered{client, r}, machine)
}

// buffered is a client's connection behind the reader that may hold its first bytes.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite ends one direction, so that half-closed connections pass through.
func (b buffered) CloseWrite() error { return closeWrite(b.Conn) }

func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// relay copies both ways until both directions have ended, either side breaks, or ctx is done.
func relay(ctx context.Context, client, machine net.Conn) {
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		machine.Close()
	})
	defer stop()
	defer machine.Close()
	var wg sync.WaitGroup
	wg.Go(func() { oneWay(machine, client) })
	oneWay(client, machine)
	wg.Wait()
}

// oneWay copies src to dst and hands the end on: an end of data as an end of data, a break as a break.
func oneWay(dst, src net.Conn) {
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		src.Close()
		return
	}
	if err := closeWrite(dst); err != nil {
		dst.Close()
	}
}
