// Package netdoor is the door into the private networks of the local Fly platform: a SOCKS5 server (RFC 1928) on
// loopback that resolves Fly's private names and nothing else.
//
//	<app>.flycast               the app's service, through the rules of Fly's proxy: cold machines are started
//	<id>.vm.<app>.internal      one started machine
//	<app>.internal              any started machine of the app
//
// The caller's network decides what it sees: a flycast address belongs to the network it was allocated on, and
// .internal names to the app's own network. A client names its network as the SOCKS user name (RFC 1929; the
// password is not looked at); without one it is on Options.Network. Plain addresses and all other names are refused:
// the door leads to no other place.
package netdoor

import (
	"context"
	"errors"
	"net"
)

// Platform is what the door asks of the platform behind it. All methods must be safe for concurrent use.
type Platform interface {
	// Services lists the app's machines that serve the external port, whatever their state, for a caller on
	// network. ErrNoName when the app does not exist or has no flycast address on that network: a caller must not
	// learn which. An app that has the address but no service on the port answers an empty list.
	Services(ctx context.Context, network, app string, port int) ([]Service, error)
	// Machines lists the ids of the app's started machines, for a caller on network. ErrNoName when the app does
	// not exist or is on another network.
	Machines(ctx context.Context, network, app string) ([]string, error)
	// Wake starts a stopped or suspended machine as Fly's proxy does and returns once it is started. A machine that
	// is started already is no error; one that cannot be started is.
	Wake(ctx context.Context, app, machine string) error
	// Dial connects to a port inside a started machine; a port without a listener is refused at once.
	Dial(ctx context.Context, app, machine string, port int) (net.Conn, error)
}

// Service is one machine's offer of a port.
type Service struct {
	// Machine is the machine's id.
	Machine string
	// InternalPort is where the service listens inside the machine.
	InternalPort int
	// Started says that the machine runs; Wakeable that it is stopped or suspended, so that a start would bring it up.
	Started, Wakeable bool
	// Cordoned machines get no traffic and are not woken.
	Cordoned bool
	// Autostart is the service's setting; a cold machine without it is never woken.
	Autostart bool
	// Failing says that a check of the machine is critical: it gets traffic only when no other machine can.
	Failing bool
}

// Errors of a connect; each has a SOCKS reply of its own.
var (
	// ErrNoName says that the name does not exist for this caller (reply: host unreachable).
	ErrNoName = errors.New("no such name on this network")
	// ErrForbidden says that the door does not lead there (reply: not allowed by ruleset).
	ErrForbidden = errors.New("only .flycast and .internal names are reached through this door")
	// ErrNoMachine says that no machine can take the connection: none, cordoned, or cold without autostart
	// (reply: connection refused).
	ErrNoMachine = errors.New("no machine can take the connection")
	// ErrNotListening says that a machine is up but nothing accepted in time (reply: TTL expired).
	ErrNotListening = errors.New("the machine does not accept connections on this port")
)
