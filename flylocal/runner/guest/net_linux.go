package guest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
)

// dialTimeout bounds a connection over loopback: it is refused or made at once, unless the listen queue is full.
const dialTimeout = 10 * time.Second

// serveDial connects inside the machine and hands the socket out.
func (g *guest) serveDial(talk *control.Conversation, port int) {
	f, err := g.dial(port)
	if err != nil {
		_ = talk.Send(failure(err))
		return
	}
	defer f.Close()
	_ = talk.Send(Reply{}, f)
}

// dial tries the machine's addresses in turn, its private one first. Fly's proxy reaches a machine from outside, so
// that an app which listens on 127.0.0.1 only is not reached there; here it is, and the check of that is left to Fly.
func (g *guest) dial(port int) (*os.File, error) {
	g.mu.Lock()
	private := g.start.PrivateIP
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var last error
	for _, host := range []netip.Addr{private, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		if !host.IsValid() {
			continue
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host.String(), strconv.Itoa(port)))
		if err != nil {
			if last == nil || errors.Is(err, syscall.ECONNREFUSED) {
				last = err
			}
			continue
		}
		defer conn.Close()
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			return nil, errors.New("not a TCP connection")
		}
		return tcp.File()
	}
	return nil, last
}
