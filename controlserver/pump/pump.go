// Package pump moves what a process writes from its pipe into the spool.
//
// It does so by splice(2): bytes go from the pipe's buffer to the page cache without passing through
// this process, so that killing it at any moment loses none. A read followed by a write would lose
// what had been read and not yet written.
package pump

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
)

// Pump owns one pipe's read end and the one file it goes to.
type Pump struct {
	mu     sync.Mutex // held over a pass
	pipe   *os.File
	path   string
	offset int64
	file   *os.File
	grown  func(end uint64)
	wide   bool
}

// MostPiped is the most that a pipe of ours ever holds.
const MostPiped = onePass

const (
	// onePass is the most one splice moves.
	onePass = 1 << 20
	// wideAfter is a pass that shows the writer to be fast: the default pipe holds no more.
	wideAfter = 64 << 10
)

// New pumps from pipe, which must be non-blocking, to the end of the file at path, made on the first
// byte with mode 0600. grown is called after every pass with the file's new end; it must not block.
func New(pipe *os.File, path string, grown func(end uint64)) (*Pump, error) {
	p := &Pump{pipe: pipe, path: path, grown: grown}
	info, err := os.Stat(path)
	switch {
	case err == nil:
		p.offset = info.Size()
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("pump: %w", err)
	}
	return p, nil
}

// Run pumps until end of file, or until Stop. It closes pipe and file. When storing fails it goes on
// reading, so that the writer is never blocked or killed by our disk, and returns the first failure.
func (p *Pump) Run() error {
	defer p.close()
	raw, err := p.pipe.SyscallConn()
	if err != nil {
		return fmt.Errorf("pump: %w", err)
	}
	var lost error
	for {
		var n int64
		var step error
		err := raw.Read(func(fd uintptr) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, step = p.pass(int(fd), lost != nil)
			return !errors.Is(step, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return lost
		case err != nil:
			return errors.Join(lost, fmt.Errorf("pump: %w", err))
		case step != nil && lost == nil:
			lost = step
		case step != nil:
			return errors.Join(lost, step)
		case n == 0:
			return lost
		}
	}
}

// Pending says whether the pipe holds bytes, or its end, that no pass has moved yet. False after the
// writer's death means that all it wrote is in the file, however late the pump is.
func (p *Pump) Pending() bool {
	raw, err := p.pipe.SyscallConn()
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pending := false
	err = raw.Control(func(fd uintptr) {
		_, err := readable(int(fd))
		pending = err == nil
	})
	return err == nil && pending
}

// Stop makes Run return; the writer will see a closed pipe.
func (p *Pump) Stop() { p.pipe.Close() }

// pass moves once: EAGAIN when the pipe is empty, 0 at its end.
func (p *Pump) pass(pipe int, discard bool) (int64, error) {
	if discard {
		return p.drop(pipe)
	}
	if p.file == nil {
		// A command that prints nothing has no file: look before making one.
		if ready, err := readable(pipe); err != nil || !ready {
			return 0, err
		}
		f, err := os.OpenFile(p.path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, fmt.Errorf("open a spool file: %w", err)
		}
		p.file = f
	}
	n, err := splice(pipe, int(p.file.Fd()), &p.offset)
	if n > 0 {
		if n >= wideAfter && !p.wide {
			// More room for a fast writer; refused to those over their quota, which changes nothing.
			_, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, onePass)
			p.wide = true
		}
		crashpoint.At(crashpoint.Pumping)
		p.grown(uint64(p.offset))
	}
	return n, err
}

func splice(pipe, file int, offset *int64) (int64, error) {
	for {
		n, err := unix.Splice(pipe, nil, file, offset, onePass, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return 0, fmt.Errorf("splice to the spool: %w", err)
		}
		return n, err
	}
}

// drop reads and forgets.
func (p *Pump) drop(pipe int) (int64, error) {
	var buf [16 << 10]byte
	for {
		n, err := unix.Read(pipe, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return int64(max(n, 0)), err
	}
}

// readable waits for nothing: false with no error means the end of the pipe.
func readable(pipe int) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("poll a pipe: %w", err)
		case n == 0:
			return false, unix.EAGAIN
		}
		return fds[0].Revents&unix.POLLIN != 0, nil
	}
}

func (p *Pump) close() {
	p.pipe.Close()
	if p.file != nil {
		p.file.Close()
	}
}
