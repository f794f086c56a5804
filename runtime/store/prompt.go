package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

const (
	// promptly is how long a thread waits for an answer: what a commit takes on a good disk.
	promptly = 2 * time.Millisecond
	// heedEvery is how often a read that waits looks whether anybody still wants it.
	heedEvery = time.Second
)

// promptConn is a connection whose reads can wait for an answer at less than the usual cost, which is a tenth of a
// commit on a good disk: pgx watches a context for each statement, and Go parks a goroutine that waits and looks for other
// work, of which one session alone has none.
type promptConn struct {
	net.Conn
	raw     syscall.RawConn
	expects atomic.Pointer[expectation]
}

// expectation is of the answer to one statement.
type expectation struct {
	// ctx and until end the wait; ctx is heeded at least every heedEvery.
	ctx   context.Context
	until time.Time
	// thread lets a thread wait first, which then holds back one of the process's GOMAXPROCS: for one connection at a time.
	thread bool
}

// promptDial dials as the given function does.
func promptDial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c, ok := conn.(syscall.Conn)
		if !ok {
			return conn, nil
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return &promptConn{Conn: conn, raw: raw}, nil
	}
}

// expect gives a context for statements whose answers come within patience, or not at all. When ctx ends meanwhile, an answer
// has up to heedEvery to come; then the connection is broken, and whether the statement was carried out is not known.
func expect(ctx context.Context, conn net.Conn, patience time.Duration, thread bool) (statement context.Context, over func()) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, ok := conn.(*promptConn)
	if !ok {
		return context.WithTimeout(ctx, patience)
	}
	c.expects.Store(&expectation{ctx: ctx, until: time.Now().Add(patience), thread: thread})
	return context.WithoutCancel(ctx), func() { c.expects.Store(nil) }
}

// Read waits for as long as the statement's answer is expected.
func (c *promptConn) Read(p []byte) (int, error) {
	e := c.expects.Load()
	if e == nil || e.thread && c.ready() {
		return c.Conn.Read(p)
	}
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	for {
		if err := c.SetReadDeadline(time.Now().Add(heedEvery)); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if e.ctx.Err() != nil || time.Now().After(e.until) {
			return 0, err // not the context's cause: that would say that nothing was carried out
		}
	}
}

// ready lets the thread wait until there is something to read, or promptly is over.
func (c *promptConn) ready() (there bool) {
	err := c.raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(promptly.Milliseconds()))
		there = n > 0 && err == nil
		return true
	})
	return there && err == nil
}
