package namespace

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/guest"
)

// egressDialTimeout bounds a connection to the outside.
const egressDialTimeout = 10 * time.Second

// serveEgress connects to the named addresses for the machine until it is down.
func (i *instance) serveEgress(egress []runner.Egress, log *slog.Logger) {
	talk, err := i.open(guest.Request{Op: guest.OpEgress})
	if err != nil {
		return
	}
	defer talk.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for {
		reply, files, err := i.receive(ctx, talk)
		if err != nil {
			return
		}
		if len(files) != 1 || reply.Egress < 0 || reply.Egress >= len(egress) {
			closeAll(files)
			continue
		}
		wg.Go(func() {
			if err := relayOut(ctx, files[0], egress[reply.Egress].Outside); err != nil {
				log.Warn("egress", "to", egress[reply.Egress].Outside, "error", err)
			}
		})
	}
}

// relayOut connects one socket of the machine with the outside.
func relayOut(ctx context.Context, socket *os.File, address string) error {
	inside, err := net.FileConn(socket)
	socket.Close()
	if err != nil {
		return err
	}
	defer inside.Close()
	d := net.Dialer{Timeout: egressDialTimeout}
	outside, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer outside.Close()
	stop := context.AfterFunc(ctx, func() {
		inside.Close()
		outside.Close()
	})
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { oneWay(outside, inside) })
	oneWay(inside, outside)
	wg.Wait()
	return nil
}

// oneWay copies and hands the end on.
func oneWay(dst, src net.Conn) {
	if _, err := io.Copy(dst, src); err != nil {
		dst.Close()
		src.Close()
		return
	}
	if tcp, ok := dst.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
		dst.Close()
	}
}
