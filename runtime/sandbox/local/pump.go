package local

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostPiped is more than a pipe or a terminal holds.
	mostPiped = 1 << 20
	// drain is the silence after which a pipe that outlives its program is no longer waited for, and
	// mostDrain the end of all patience.
	drain     = 100 * time.Millisecond
	mostDrain = time.Second
)

// pump moves what a command writes to a tape. Bytes are read and kept under one lock: whoever holds it and
// finds the pipe empty knows that nothing is on the way.
type pump struct {
	file *os.File
	tape *tape
	bell *bell
	log  *slog.Logger
	done chan struct{} // closed at the end of the stream
	stop atomic.Bool   // nobody wants more

	mu  sync.Mutex
	buf []byte
	eof bool
}

func newPump(f *os.File, t *tape, b *bell, log *slog.Logger) *pump {
	return &pump{file: f, tape: t, bell: b, log: log, done: make(chan struct{}), buf: make([]byte, 64<<10)}
}

// run moves until the stream ends. After the command's end it goes on, so that what the command left running
// is not ended by a closed pipe (mksglu/context-mode#848).
func (p *pump) run() {
	defer close(p.done)
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	// An error says that the file was closed.
	_ = raw.Read(func(fd uintptr) bool {
		for {
			if n, over := p.step(int(fd)); over || n == 0 || p.stop.Load() {
				return over || p.stop.Load()
			}
		}
	})
}

// step moves what is there, once.
func (p *pump) step(fd int) (n int, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.eof {
		return 0, true
	}
	n, err := unix.Read(fd, p.buf)
	switch {
	case err == unix.EINTR: //nolint:errorlint // a bare number of the kernel
		return 1, false
	case err == unix.EAGAIN: //nolint:errorlint // likewise
		return 0, false
	case err != nil || n <= 0:
		// EIO is the end of a terminal.
		p.eof = true
		return 0, true
	}
	if err := p.tape.add(p.buf[:n]); err != nil {
		p.log.Error("output is not kept", "error", err)
	}
	p.bell.ring()
	return n, false
}

// empty moves all that the pipe holds now.
func (p *pump) empty() {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for moved := 0; moved < mostPiped; {
			n, over := p.step(int(fd))
			if over || n == 0 {
				return
			}
			moved += n
		}
	})
}

// settle returns when all that the ended program wrote is kept. What it left running may hold the pipes:
// their words count while they come without a pause.
func (c *command) settle() {
	for _, p := range c.pumps {
		p.empty()
	}
	quiet, limit := time.NewTimer(drain), time.NewTimer(mostDrain)
	defer quiet.Stop()
	defer limit.Stop()
	for _, p := range c.pumps {
		for waiting := true; waiting; {
			again := c.bell.C()
			select {
			case <-p.done:
				waiting = false
			case <-again:
				quiet.Reset(drain)
			case <-quiet.C:
				return
			case <-limit.C:
				return
			}
		}
	}
}
