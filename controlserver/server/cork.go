//go:build linux

package server

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Cork makes the connections of a listener send the headers of an answer together with its first message.
// net/http writes them apart, which costs a packet, and a waking of the peer for nothing, in every
// call. The kernel holds them for the message, 200 ms at most (tcp(7), MSG_MORE).
func Cork(l net.Listener) net.Listener { return corkedListener{l} }

type corkedListener struct{ net.Listener }

func (l corkedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return corkedConn{tcp}, nil
	}
	return c, err
}

type corkedConn struct{ *net.TCPConn }

func (c corkedConn) Write(p []byte) (int, error) {
	if !headersAlone(p) {
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

// headersAlone says whether bytes are one whole HEADERS frame after which the stream goes on (RFC 9113,
// sections 4.1 and 6.2). Other bytes that look like it come to no harm.
func headersAlone(p []byte) bool {
	const (
		frameHead             = 9
		headers               = 1
		endStream, endHeaders = 0x1, 0x4
	)
	return len(p) > frameHead && p[3] == headers && p[4]&endStream == 0 && p[4]&endHeaders != 0 &&
		int(p[0])<<16|int(p[1])<<8|int(p[2]) == len(p)-frameHead
}
