package cork

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Conn corks a client's connection, if it is one of TCP. Window is how many bytes of a stream its server may send ahead, in all streams
// alike: updates that together are less than a quarter of it are held. It is for HTTP/2 alone.
func Conn(c net.Conn, window int) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	unpace(tcp)
	return &clientConn{conn: conn{tcp}, most: int64(window / 4)}
}

func accepted(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	unpace(tcp)
	return conn{tcp}
}

// unpace spares a connection within one computer BBR, which some computers use for all: it sends by a timer what could go at once.
func unpace(c *net.TCPConn) {
	local, _ := c.LocalAddr().(*net.TCPAddr)
	remote, _ := c.RemoteAddr().(*net.TCPAddr)
	if local == nil || remote == nil || !remote.IP.IsLoopback() && !remote.IP.Equal(local.IP) {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if name, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION); err == nil && name == "bbr" {
			// The one that every kernel has, and lets everybody use.
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		}
	})
}

type conn struct{ *net.TCPConn }

func (c conn) Write(p []byte) (int, error) {
	if !moreComes(p) {
		return c.TCPConn.Write(p)
	}
	return c.hold(p)
}

// hold writes what the kernel may keep back.
func (c conn) hold(p []byte) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		n, sendErr = unix.SendmsgN(int(fd), p, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		return !errors.Is(sendErr, unix.EAGAIN) && !errors.Is(sendErr, unix.EINTR)
	})
	switch {
	case err != nil:
		return 0, err
	case sendErr != nil:
		return 0, &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: sendErr}
	case n < len(p):
		more, err := c.TCPConn.Write(p[n:])
		return n + more, err
	}
	return n, nil
}

type clientConn struct {
	conn
	most int64        // of updates that are held
	held atomic.Int64 // what streams' windows lack by them
}

func (c *clientConn) Write(p []byte) (int, error) {
	by, only := updated(p)
	if !only {
		// Updates that are held go before it, now or with it.
		return c.conn.Write(p)
	}
	if c.held.Add(int64(by)) >= c.most {
		c.held.Store(0)
		return c.TCPConn.Write(p)
	}
	return c.hold(p)
}

const (
	// readAhead is what net/http reads at most without knowing that it comes: a read of more is for the rest of a frame.
	readAhead = 4 << 10
	// mostAwaited is how much of a frame a reader sleeps for. Packets on the way within one computer are of 64 KiB.
	mostAwaited = 128 << 10
)

// Read of a frame's rest sleeps until it is there, or much of it: it would be woken for every packet.
func (c *clientConn) Read(p []byte) (int, error) {
	if len(p) <= readAhead {
		return c.TCPConn.Read(p)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var n int
	var readErr error
	waits := false
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = receive(fd, p)
		if !errors.Is(readErr, unix.EAGAIN) {
			return true
		}
		// What came in between has been told of already.
		waits = true
		awake(fd, min(len(p), mostAwaited))
		return false
	})
	if waits {
		_ = raw.Control(func(fd uintptr) { awake(fd, 1) })
	}
	switch {
	case err != nil:
		return 0, err
	case readErr != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: readErr}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func receive(fd uintptr, p []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), p)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// awake says from how many bytes on, or the end, a reader is woken.
func awake(fd uintptr, n int) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) }
