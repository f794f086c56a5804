package cork

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Conn corks a connection, if it is one of TCP.
func Conn(c net.Conn) net.Conn {
	if tcp, ok := c.(*net.TCPConn); ok {
		return conn{tcp}
	}
	return c
}

type conn struct{ *net.TCPConn }

func (c conn) Write(p []byte) (int, error) {
	if !moreComes(p) {
		return c.TCPConn.Write(p)
	}
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
