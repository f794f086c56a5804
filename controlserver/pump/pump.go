//go:build linux

// Package pump moves what a process writes from its pipe into the spool.
//
// It does so by splice(2): bytes go from the pipe's buffer to the page cache without passing through
// this process, so that killing it at any moment loses none. A read followed by a write would lose
// what had been read and not yet written.
//
// A pump never stops reading: a process is not blocked or killed by our disk. What cannot or may not be
// stored is counted and dropped, in this order: a line in the exec's book, the file made longer by a
// hole, the bytes dropped. Killed between the last two, the next pump finds the bytes in the pipe
// again and stores them behind the hole: offsets then count them twice, but no byte is missing that no
// gap tells of.
package pump

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Options are what a Pump needs.
type Options struct {
	// Pipe is the read end, non-blocking. Run closes it.
	Pipe *os.File
	// Path is the file, made with mode 0600 on the first byte, if it is not there.
	Path string
	// Fresh says that nothing was stored yet, so that nobody need look.
	Fresh bool
	Book  *spool.Book
	// Cap is how many bytes are stored; Policy says what happens beyond.
	Cap    uint64
	Policy wirev1.CapPolicy
	// Room says why bytes may not be stored now, UNSPECIFIED when they may.
	Room func() wirev1.GapReason
	// Grown is called after every pass with the stream's new end; it must not block.
	Grown func(end uint64)
	// Stored is told how the file's use of the disk changed, in bytes.
	Stored func(delta int64)
	// Hurry is called each time that a fast writer has stored some MiB more.
	Hurry func()
	// Full is called once when the cap is reached under CAP_POLICY_KILL.
	Full func()
}

// Pump owns one pipe's read end and the one file it goes to.
type Pump struct {
	o      Options
	mu     sync.Mutex // held over a pass
	source *source
	file   *os.File
	null   *os.File

	offset   uint64 // end of the stream
	pace     pace
	hurried  bool
	retry    time.Time // when to look for room again
	checked  uint64    // end of the stream when room was last looked for
	aside    uint64    // how far blocks are set aside
	loose    bool      // the file may hold blocks beyond its end
	full     bool
	dropping bool // everything, without a file: nobody wants it
	finished bool // the pipe's writer is done, though the keeper holds its other end
}

// MostPiped is the most that a pipe of ours ever holds.
const MostPiped = 1 << 20

const (
	// onePass is the most one splice moves.
	onePass = MostPiped
	// roomEvery is how many bytes go by between two looks for room, retryAfter how much time while
	// there is none.
	roomEvery  = 4 << 20
	retryAfter = time.Second
	// punchStep is the unit in which the oldest bytes are given up.
	punchStep = 1 << 20
)

// New makes a pump that goes on at the end of the file.
func New(o Options) (*Pump, error) {
	p := &Pump{o: o, source: newSource(o.Pipe)}
	if o.Fresh {
		return p, nil
	}
	info, err := os.Stat(o.Path)
	switch {
	case err == nil:
		p.offset, p.loose = uint64(info.Size()), true
	case !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("pump: %w", err)
	}
	p.checked = p.offset
	return p, nil
}

// Run pumps until the pipe's end. It closes pipe and file. The error is the first that kept bytes from
// being stored by another cause than the book tells.
func (p *Pump) Run() error {
	defer p.close()
	var first error
	for {
		var n int64
		var step error
		err := p.source.wait(func(pipe int) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			n, step = p.pass(pipe)
			return !errors.Is(step, unix.EAGAIN)
		})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Finish woke us.
			if err := p.source.resume(); err != nil {
				return errors.Join(first, fmt.Errorf("pump: %w", err))
			}
			continue
		case err != nil:
			return errors.Join(first, fmt.Errorf("pump: %w", err))
		case step == nil && n == 0:
			return first
		case step != nil && first == nil:
			first = step
		}
		if step != nil && n == 0 {
			return first
		}
		if p.pace.fast {
			p.hurry()
			rest(p.pace.gather())
		}
	}
}

// rest sleeps. The runtime's own sleep lasts a millisecond at least while nothing else is to be done.
func rest(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
	} else if d > 0 {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(d)}, nil)
	}
}

// hurry prepares for a fast writer, once.
func (p *Pump) hurry() {
	if p.hurried {
		return
	}
	p.hurried = true
	p.mu.Lock()
	defer p.mu.Unlock()
	// More room; refused to those over their quota, which changes nothing, as does the other.
	p.source.look(func(pipe int) { _, _ = unix.FcntlInt(uintptr(pipe), unix.F_SETPIPE_SZ, MostPiped) })
	_ = p.source.calm()
}

// Pending says whether the pipe holds bytes, or its end, that no pass has moved yet. False after the
// writer's death means that all it wrote is in the file, however late the pump is.
func (p *Pump) Pending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending := false
	p.source.look(func(pipe int) {
		_, err := readable(pipe)
		pending = err == nil
	})
	return pending
}

// Discard makes the pump drop everything from now on, without counting it: the exec was forgotten.
func (p *Pump) Discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropping = true
}

// Finish says that no more bytes will be written to the pipe: it ends when it is empty.
func (p *Pump) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	p.source.interrupt()
}

// pass moves once: EAGAIN when the pipe is empty, 0 at its end.
func (p *Pump) pass(pipe int) (int64, error) {
	ready, err := readable(pipe)
	if errors.Is(err, unix.EAGAIN) && p.finished {
		return 0, nil
	}
	if err != nil || !ready {
		return 0, err
	}
	if p.dropping {
		return p.drop(pipe, onePass)
	}
	if err := p.open(); err != nil {
		// Without a file there is nothing to count in.
		n, _ := p.drop(pipe, onePass)
		return n, err
	}
	if reason := p.refused(); reason != wirev1.GapReason_GAP_REASON_UNSPECIFIED {
		return p.skip(pipe, reason)
	}
	if err := p.o.Book.End(p.offset); err != nil {
		return p.skip(pipe, wirev1.GapReason_GAP_REASON_DISK_FULL)
	}
	return p.store(pipe)
}

// refused says why the next bytes are not stored.
func (p *Pump) refused() wirev1.GapReason {
	if p.capped() && p.offset >= p.o.Cap {
		if p.o.Policy == wirev1.CapPolicy_CAP_POLICY_KILL && !p.full {
			p.full = true
			p.o.Full()
		}
		return wirev1.GapReason_GAP_REASON_CAP
	}
	gaping := p.o.Book.Gaping()
	switch {
	case gaping == wirev1.GapReason_GAP_REASON_UNSPECIFIED && p.offset-p.checked < roomEvery:
		return gaping
	case gaping != wirev1.GapReason_GAP_REASON_UNSPECIFIED && time.Now().Before(p.retry):
		return gaping
	}
	p.checked, p.retry = p.offset, time.Now().Add(retryAfter)
	reason := p.o.Room()
	if reason == wirev1.GapReason_GAP_REASON_UNSPECIFIED && p.pace.fast {
		p.o.Hurry()
		p.setAside()
	}
	return reason
}

// setAside takes the blocks for what is stored until room is looked for again. A file system that finds a
// block for each page as it comes takes half as long again for a splice.
func (p *Pump) setAside() {
	from, to := max(p.offset, p.aside), p.offset+roomEvery+onePass
	if p.capped() {
		to = min(to, p.o.Cap)
	}
	if from >= to {
		return
	}
	p.loose = true
	if unix.Fallocate(int(p.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, int64(from), int64(to-from)) != nil {
		// Where it cannot be done the bytes are stored without; where there was less room than that, they
		// need what was taken of it.
		p.giveBack()
		return
	}
	p.aside = to
}

// giveBack frees blocks beyond the file's end.
func (p *Pump) giveBack() {
	if !p.loose {
		return
	}
	p.aside, p.loose = 0, unix.Ftruncate(int(p.file.Fd()), int64(p.offset)) != nil
}

// capped says whether the cap ends the stream's storage, rather than its oldest bytes.
func (p *Pump) capped() bool {
	return p.o.Policy == wirev1.CapPolicy_CAP_POLICY_STOP_STORING || p.o.Policy == wirev1.CapPolicy_CAP_POLICY_KILL
}

func (p *Pump) store(pipe int) (int64, error) {
	length := onePass
	if p.capped() {
		length = int(min(uint64(length), p.o.Cap-p.offset))
	}
	n, err := p.splice(pipe, length)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, err
	case err != nil:
		// A full disk, a quota, a file that is too large, a device that fails: all one to the process.
		p.retry = time.Now().Add(retryAfter)
		skipped, skipErr := p.skip(pipe, wirev1.GapReason_GAP_REASON_DISK_FULL)
		if isFull(err) {
			err = nil
		}
		return skipped, errors.Join(err, skipErr)
	}
	p.pace.note(time.Now(), n)
	p.offset += uint64(n)
	crashpoint.At(crashpoint.Pumping)
	p.o.Stored(n)
	p.o.Grown(p.offset)
	return n, p.trim()
}

func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// trim gives the oldest bytes up when more than the cap are stored.
func (p *Pump) trim() error {
	tail := p.o.Book.Tail()
	if p.capped() || p.offset-tail < p.o.Cap+punchStep {
		return nil
	}
	next := (p.offset - p.o.Cap) / punchStep * punchStep
	if next <= tail {
		return nil
	}
	if err := p.o.Book.GiveUp(next); err != nil {
		return err
	}
	if err := unix.Fallocate(int(p.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(tail), int64(next-tail)); err != nil {
		return fmt.Errorf("give old output up: %w", err)
	}
	p.o.Stored(-int64(next - tail))
	return nil
}

// skip counts and drops what is in the pipe.
func (p *Pump) skip(pipe int, reason wirev1.GapReason) (int64, error) {
	held, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil || held <= 0 {
		return 0, unix.EAGAIN
	}
	p.giveBack() // or the hole would take them
	if err := p.o.Book.Begin(p.offset, reason); err != nil {
		n, _ := p.drop(pipe, held)
		return n, err
	}
	if err := unix.Ftruncate(int(p.file.Fd()), int64(p.offset)+int64(held)); err != nil {
		n, _ := p.drop(pipe, held)
		return n, fmt.Errorf("count dropped output: %w", err)
	}
	p.offset += uint64(held)
	p.o.Grown(p.offset)
	for left := held; left > 0; {
		n, err := p.drop(pipe, left)
		if err != nil || n == 0 {
			return int64(held), err
		}
		left -= int(n)
	}
	return int64(held), nil
}

// drop moves bytes to nowhere.
func (p *Pump) drop(pipe, most int) (int64, error) {
	if p.null == nil {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			return 0, fmt.Errorf("drop output: %w", err)
		}
		p.null = null
	}
	for {
		n, err := unix.Splice(pipe, nil, int(p.null.Fd()), nil, most, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (p *Pump) open() error {
	if p.file != nil {
		return nil
	}
	f, err := spool.OpenFile(p.o.Path, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("open a spool file: %w", err)
	}
	p.file = f
	return nil
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source.close()
	if p.loose && !p.dropping && p.open() == nil {
		p.giveBack()
	}
	for _, f := range []*os.File{p.file, p.null} {
		if f != nil {
			f.Close()
		}
	}
}
