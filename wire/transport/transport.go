// Package transport reaches machines on their private network. A DialFunc is the one place where names
// under .flycast and .internal turn into connections: they are resolved at the far end of the
// transport, never by the host's resolver, which would leak tenants' names and could answer with
// somebody else's address.
package transport

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"
)

// DialFunc opens a connection to address ("host:port") on the private network. It has the shape of
// net.Dialer.DialContext and is safe for concurrent use.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialTimeout bounds one connection attempt; a stopped machine that the platform's proxy wakes needs
// some seconds before it accepts.
const dialTimeout = 30 * time.Second

// Parse reads FLYFLEET_TRANSPORT:
//
//   - "socks5://127.0.0.1:PORT?network=NAME": a SOCKS5 door into the private network NAME. Names travel
//     to the door unresolved. The network's name is sent as the SOCKS user name with the password "-"
//     (RFC 1929 has no other place for it); without network= no authentication is offered.
//   - "direct": this process is inside the private network already, and its resolver is the network's.
//
// An error names what was wrong and what would be right.
func Parse(text string) (DialFunc, error) {
	switch text {
	case "":
		return nil, fmt.Errorf("no transport given: set FLYFLEET_TRANSPORT to socks5://HOST:PORT?network=NAME, or to direct inside the private network")
	case "direct":
		return direct(), nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("transport is no URL: want socks5://HOST:PORT?network=NAME or direct")
	}
	if u.Scheme != "socks5" {
		return nil, fmt.Errorf("transport scheme %q is unknown: want socks5://HOST:PORT?network=NAME or direct", u.Scheme)
	}
	return socks5(u)
}

// Private says whether a host name belongs to a private network, so that only a transport may
// resolve it.
func Private(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, zone := range []string{".flycast", ".internal"} {
		if strings.HasSuffix(host, zone) || host == zone[1:] {
			return true
		}
	}
	return false
}

// Host dials like net.Dialer and refuses private names: what a client uses that was given no transport.
func Host() DialFunc {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		if Private(host) {
			return nil, fmt.Errorf("dial %s: a private name needs a transport: set FLYFLEET_TRANSPORT to socks5://HOST:PORT?network=NAME, or to direct inside the private network", address)
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// Assumption: inside Fly's private network /etc/resolv.conf names fdaa::3, which answers .internal and
// .flycast; Fly documents it for every machine.
func direct() DialFunc {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("transport direct (right only inside the private network): %w", err)
		}
		return conn, nil
	}
}

func socks5(u *url.URL) (DialFunc, error) {
	if u.Hostname() == "" || u.Port() == "" || (u.Path != "" && u.Path != "/") || u.User != nil {
		return nil, fmt.Errorf("transport wants socks5://HOST:PORT?network=NAME and nothing else before the '?'")
	}
	if Private(u.Hostname()) {
		return nil, fmt.Errorf("transport: the SOCKS5 door %s cannot itself be a private name", u.Host)
	}
	for key := range u.Query() {
		if key != "network" {
			return nil, fmt.Errorf("transport: option %q is unknown, only network= is", key)
		}
	}
	var auth *proxy.Auth
	if network := u.Query().Get("network"); network != "" {
		if len(network) > 255 {
			return nil, fmt.Errorf("transport: network name is longer than 255 bytes")
		}
		auth = &proxy.Auth{User: network, Password: "-"}
	}
	forward := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	dialer, err := proxy.SOCKS5("tcp", u.Host, auth, forward)
	if err != nil {
		return nil, fmt.Errorf("transport: SOCKS5 door %s: %w", u.Host, err)
	}
	contextual, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return nil, fmt.Errorf("transport: the SOCKS5 library cannot be cancelled")
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := contextual.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("dial %s through the SOCKS5 door %s: %w", address, u.Host, err)
		}
		return conn, nil
	}, nil
}
