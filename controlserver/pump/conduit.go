//go:build linux

package pump

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
)

// Conduit moves bytes from one descriptor to another by splice(2), one of which is a pipe: a terminal's
// output into the pipe that is pumped, or accepted stdin into a terminal. Both are non-blocking. It does
// not close them.
type Conduit struct {
	from, to *os.File
	mu       sync.Mutex // held over a pass
}

// NewConduit makes a conduit.
func NewConduit(from, to *os.File) *Conduit { return &Conduit{from: from, to: to} }

// Run moves bytes until the end of from: end of file, or EIO of a terminal that nobody holds any more.
// A closed to ends it too.
func (c *Conduit) Run() error {
	in, err := c.from.SyscallConn()
	if err != nil {
		return fmt.Errorf("conduit: %w", err)
	}
	out, err := c.to.SyscallConn()
	if err != nil {
		return fmt.Errorf("conduit: %w", err)
	}
	for {
		ended, err := c.fill(in)
		if ended || err != nil {
			return err
		}
		if err := c.await(out); err != nil {
			return err
		}
	}
}

// fill moves until from is at its end (true), or to is full (false).
func (c *Conduit) fill(in interface {
	Read(func(uintptr) bool) error
},
) (ended bool, err error) {
	var n int64
	var step error
	full := false
	err = in.Read(func(from uintptr) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for {
			n, step = c.pass(int(from))
			if n <= 0 || step != nil {
				break
			}
			crashpoint.At(crashpoint.Pty)
		}
		if !errors.Is(step, unix.EAGAIN) {
			return true
		}
		// Either nothing came, or nothing fits.
		ready, readErr := readable(int(from))
		full = readErr == nil && ready
		return full
	})
	switch {
	case errors.Is(err, os.ErrClosed):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("conduit: %w", err)
	case full:
		return false, nil
	case step == nil, errors.Is(step, unix.EIO), errors.Is(step, unix.EPIPE):
		return true, nil
	}
	return false, fmt.Errorf("conduit: %w", step)
}

func (c *Conduit) pass(from int) (n int64, err error) {
	to, err := c.to.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := to.Control(func(fd uintptr) {
		for {
			n, err = unix.Splice(from, nil, int(fd), nil, 64<<10, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return n, errors.Join(controlErr, err)
}

// await waits until something fits into to.
func (c *Conduit) await(out interface {
	Write(func(uintptr) bool) error
},
) error {
	// Looked at inside: the poller forgets what it saw before.
	err := out.Write(func(fd uintptr) bool { return writable(int(fd)) })
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("conduit: %w", err)
	}
	return nil
}

// Pending says whether from holds bytes, or its end, that were not moved yet.
func (c *Conduit) Pending() bool {
	raw, err := c.from.SyscallConn()
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pending := false
	err = raw.Control(func(fd uintptr) {
		_, err := readable(int(fd))
		pending = err == nil
	})
	return err == nil && pending
}

// writable waits for nothing. A descriptor that fails counts: writing to it tells why.
func writable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || n > 0
		}
	}
}
