package guest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
)

// outgoing is a connection that a process of the machine made to an egress address.
type outgoing struct {
	index int
	conn  *os.File
}

// listenEgress opens the addresses on which connections to the outside are taken. An address that is not loopback
// is added to lo.
func (g *guest) listenEgress(addresses []string) error {
	for i, a := range addresses {
		at, err := netip.ParseAddrPort(a)
		if err != nil {
			return fmt.Errorf("egress address %q: %w", a, err)
		}
		if at.Addr().Is6() && !at.Addr().IsLoopback() {
			if err := bringUpLoopback(at.Addr()); err != nil {
				return err
			}
		}
		var lc net.ListenConfig
		ln, err := lc.Listen(context.Background(), "tcp", at.String())
		if err != nil {
			return fmt.Errorf("egress address %s: %w", a, err)
		}
		go g.acceptEgress(i, ln)
	}
	return nil
}

// acceptEgress runs for as long as the machine.
func (g *guest) acceptEgress(index int, ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "egress:", err)
			return
		}
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			conn.Close()
			continue
		}
		f, err := tcp.File()
		conn.Close()
		if err == nil {
			g.egress <- outgoing{index, f}
		}
	}
}

// serveEgress hands accepted connections out until the platform ends the conversation.
func (g *guest) serveEgress(talk *control.Conversation) {
	gone := make(chan struct{})
	go watchEnd(talk, func() { close(gone) })
	for {
		select {
		case out := <-g.egress:
			err := talk.Send(Reply{Egress: out.index}, out.conn)
			out.conn.Close()
			if err != nil {
				return
			}
		case <-gone:
			return
		}
	}
}
