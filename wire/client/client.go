// Package client speaks the wire to one machine: one HTTP/2 connection, gRPC framing, no compression.
// Run is the call most users want: it starts a command exactly once, follows its output across broken
// connections, and returns only when the machine has said how the command ended, and every byte of
// output before that end has arrived.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/cork"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// Options say which machine a Client speaks to, and as whom.
type Options struct {
	// Address is "host:port" on the private network, for instance "tenant-a.flycast:8080". The host
	// also is the HTTP authority.
	Address string
	// Dial opens connections. Nil dials by the host's own network, which refuses private names.
	Dial transport.DialFunc
	// Road is a connection that clients of one machine share, whoever they speak for; then Dial is not used. Nil is a
	// connection of the client's own.
	Road *Road
	// Tokens prove the caller. SignWith makes a source from a signing key.
	Tokens TokenSource
	// Scope and Fence go with every call of Run, Attach and Signal. Scope must be the tokens'.
	Scope string
	Fence uint64
	// Build is told to the machine for its log; empty means wire.Build.
	Build string
	// Log hears of re-attachments; nil discards.
	Log *slog.Logger
}

// Client speaks to one machine. It is safe for concurrent use; all its calls share one connection.
type Client struct {
	options Options
	road    *Road
	rpc     wirev1connect.ControlServiceClient
	log     *slog.Logger
}

// Road is one connection to one machine, opened when it is first needed. It is safe for concurrent use.
type Road struct{ transport *http.Transport }

// NewRoad makes a road. Nil dials as in Options.
func NewRoad(dial transport.DialFunc) *Road {
	if dial == nil {
		dial = transport.Host()
	}
	return &Road{transport: newTransport(dial)}
}

// Close drops the connection when nothing is under way on it; otherwise it goes some minutes after the last call.
func (r *Road) Close() { r.transport.CloseIdleConnections() }

// Timeouts of the connection. A dead peer is noticed after pingEvery + pingWait; a stream that says
// nothing for silence (the machine beats every 15 s) is opened again.
const (
	pingEvery = 15 * time.Second
	pingWait  = 10 * time.Second
	silence   = 45 * time.Second
	callLimit = 30 * time.Second
)

// streamWindow is how much of a stream the machine may send ahead of its reader.
const streamWindow = 4<<20 - 1

// New makes a client. It opens no connection.
func New(options Options) (*Client, error) {
	switch {
	case options.Address == "":
		return nil, errors.New("wire client: no address given")
	case options.Tokens == nil:
		return nil, errors.New("wire client: no token source given")
	}
	if err := wire.CheckScope(options.Scope); err != nil {
		return nil, fmt.Errorf("wire client: %w", err)
	}
	if options.Build == "" {
		options.Build = wire.Build
	}
	c := &Client{options: options, log: options.Log, road: options.Road}
	if c.road == nil {
		c.road = NewRoad(options.Dial)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.rpc = wirev1connect.NewControlServiceClient(
		&tap{&http.Client{Transport: c.road.transport}}, "http://"+options.Address,
		connect.WithGRPC(),
		connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(wire.MaxAnswerBytes),
		connect.WithInterceptors(&bearer{tokens: options.Tokens}),
	)
	return c, nil
}

func newTransport(dial transport.DialFunc) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return cork.Conn(conn, streamWindow), nil
		},
		Protocols:          protocols,
		DisableCompression: true,
		IdleConnTimeout:    5 * time.Minute,
		MaxConnsPerHost:    1,
		HTTP2: &http.HTTP2Config{
			StrictMaxConcurrentRequests: true,
			MaxReadFrameSize:            1 << 20,
			MaxReceiveBufferPerStream:   streamWindow,
			SendPingTimeout:             pingEvery,
			PingTimeout:                 pingWait,
			WriteByteTimeout:            30 * time.Second,
		},
	}
}

// Close drops the client's idle connection, but not a road of Options. Calls in flight are not ended.
func (c *Client) Close() {
	if c.options.Road == nil {
		c.road.Close()
	}
}

// RPC is the raw service: the caller fills scope and fence, sees each call's own error, and sets its own
// deadlines (never one on Exec or Attach: it would travel and end the stream).
func (c *Client) RPC() wirev1connect.ControlServiceClient { return c.rpc }

// Hello asks which machine answers and what it can do. Without a deadline in ctx it waits 30 s.
func (c *Client) Hello(ctx context.Context) (*wirev1.HelloResponse, error) {
	return call(ctx, c, "hello", c.rpc.Hello, &wirev1.HelloRequest{
		WireMin: wire.Version, WireMax: wire.Version, ClientBuild: c.options.Build,
	})
}

func withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callLimit)
}

// failed wraps a call's error: a refusal stays a *wire.Error in the chain.
func (c *Client) failed(what string, err error) error {
	if refusal, ok := wire.AsError(err); ok {
		return fmt.Errorf("%s on %s: %w", what, c.options.Address, refusal)
	}
	return fmt.Errorf("%s on %s: %w", what, c.options.Address, err)
}
