package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
)

const (
	// privateBits is the prefix of a machine's own block of its network.
	privateBits = 112
	// dialTimeout bounds a connection over loopback: it is refused or made at once, unless the listen queue is full.
	dialTimeout = 10 * time.Second
)

// ifreqAddr6 is the kernel's struct in6_ifreq.
type ifreqAddr6 struct {
	addr   [16]byte
	prefix uint32
	index  int32
}

// bringUpLoopback gives the machine's only interface its addresses.
func bringUpLoopback(private netip.Addr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configure lo: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("configure lo: %w", err)
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	if !private.Is6() {
		return nil
	}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return fmt.Errorf("configure lo: %w", err)
	}
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("configure lo: IPv6: %w", err)
	}
	defer func() { _ = unix.Close(fd6) }()
	add := ifreqAddr6{addr: private.As16(), prefix: privateBits, index: int32(lo.Index)}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd6), unix.SIOCSIFADDR,
		uintptr(unsafe.Pointer(&add))) //nolint:gosec // the kernel reads a struct of just this shape
	if errno != 0 && errno != unix.EEXIST {
		return fmt.Errorf("give lo the address %s: %w", private, errno)
	}
	return nil
}

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
