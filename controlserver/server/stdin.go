//go:build linux

package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// stdin takes a piped stdin from callers and feeds it to the exec. Accepted bytes lie in a file of memory
// that the keeper holds too: its size is how far bytes were accepted, and its position, which both
// processes share, how far they were fed, so both survive this server. Feeding is one splice from there
// into the pipe, which moves the position with the bytes. The hash of what was accepted is kept in
// another such file.
type stdin struct {
	exec   *exec
	keeper keeper.Keeper
	log    *slog.Logger
	spec   *wirev1.Stdin

	mu       sync.Mutex
	accepted int64
	sum      hash.Hash
	eof      bool
	closed   bool  // the exec reads no more, or all was fed
	broken   error // the state of an earlier server is unreadable
	bell     bell  // rings when something was accepted, fed, or closed
}

// window is how many accepted bytes may wait to be fed.
const window = wire.MaxStdinChunk

func newStdin(e *exec, k keeper.Keeper, log *slog.Logger) *stdin {
	s := &stdin{exec: e, keeper: k, log: log, spec: e.spec.GetStdin(), sum: sha256.New()}
	s.broken = s.recall()
	return s
}

// mark is the record of the hash: offset (8 bytes), eof (1), hash state.
func (s *stdin) mark() error {
	state, err := s.sum.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.accepted))
	b = append(b, 0)
	if s.eof {
		b[8] = 1
	}
	_, err = s.exec.files.StdinHash.WriteAt(append(b, state...), 0)
	return err
}

// recall takes up what an earlier server left: its hash, and the bytes that it accepted after that.
func (s *stdin) recall() error {
	info, err := s.exec.files.Stdin.Stat()
	if err != nil {
		return err
	}
	s.accepted = info.Size()
	b, err := io.ReadAll(io.NewSectionReader(s.exec.files.StdinHash, 0, 1<<10))
	if err != nil || len(b) == 0 && s.accepted == 0 {
		return err
	}
	hashed := int64(0)
	if len(b) > 9 {
		hashed, s.eof = int64(binary.BigEndian.Uint64(b)), b[8] == 1
		if err := s.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(b[9:]); err != nil {
			return err
		}
	}
	if _, err := io.Copy(s.sum, io.NewSectionReader(s.exec.files.Stdin, hashed, s.accepted-hashed)); err != nil {
		return err
	}
	// Before anything is fed, and its memory given back: a third server could not hash it again.
	return s.mark()
}

func (s *stdin) fed() (int64, error) {
	at, err := unix.Seek(int(s.exec.files.Stdin.Fd()), 0, unix.SEEK_CUR)
	if err != nil {
		return 0, fmt.Errorf("stdin: %w", err)
	}
	return at, nil
}

// write accepts data at an offset: what was accepted before is skipped, what does not fit waits for room
// until ctx ends. It returns how far bytes are accepted, and whether no more are wanted.
func (s *stdin) write(ctx context.Context, offset int64, data []byte, eof bool) (int64, bool, error) {
	end := offset + int64(len(data))
	for {
		again := s.bell.C()
		accepted, closed, err := s.accept(offset, data, eof)
		if err != nil || closed || accepted >= end && (!eof || s.over()) {
			return accepted, closed, err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return accepted, false, nil
		}
	}
}

func (s *stdin) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eof
}

func (s *stdin) accept(offset int64, data []byte, eof bool) (int64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(offset, data); err != nil || s.closed || s.eof {
		return s.accepted, s.closed || s.eof, err
	}
	fed, err := s.fed()
	if err != nil {
		return s.accepted, false, err
	}
	fresh := data[min(s.accepted-offset, int64(len(data))):]
	fresh = fresh[:max(0, min(int64(len(fresh)), window-(s.accepted-fed)))]
	if len(fresh) > 0 {
		n, err := s.exec.files.Stdin.WriteAt(fresh, s.accepted)
		crashpoint.At(crashpoint.Stdin)
		s.accepted += int64(n)
		s.sum.Write(fresh[:n])
		if err = errors.Join(err, s.mark()); err != nil {
			return s.accepted, false, fmt.Errorf("stdin: %w", err)
		}
		s.bell.ring()
	}
	if !eof || s.accepted < offset+int64(len(data)) {
		return s.accepted, false, nil
	}
	if err := s.verify(); err != nil {
		// The exec must not take a part for the whole: it is ended before it could see an end.
		s.closed = true
		go terminateNow(s.exec, s.keeper, wirev1.ExitCause_EXIT_CAUSE_STDIN_MISMATCH, s.log)
		return s.accepted, true, err
	}
	s.eof = true
	if err := s.mark(); err != nil {
		return s.accepted, false, fmt.Errorf("stdin: %w", err)
	}
	s.bell.ring()
	return s.accepted, true, nil
}

func (s *stdin) check(offset int64, data []byte) error {
	switch {
	case s.broken != nil:
		return fmt.Errorf("stdin: %w", s.broken)
	case offset > s.accepted:
		return wire.Invalid(&wire.FieldError{Field: "offset", Problem: fmt.Sprintf("is beyond the %d bytes that were accepted", s.accepted)})
	case s.promised() && offset+int64(len(data)) > int64(s.spec.GetLength()):
		return wire.Invalid(&wire.FieldError{Field: "data", Problem: fmt.Sprintf("goes beyond the %d bytes that the spec promised", s.spec.GetLength())})
	}
	return nil
}

// promised says whether the spec tells the content's length and hash.
func (s *stdin) promised() bool { return len(s.spec.GetSha256()) > 0 }

func (s *stdin) verify() error {
	if !s.promised() {
		return nil
	}
	if uint64(s.accepted) != s.spec.GetLength() {
		return wire.Invalid(&wire.FieldError{Field: "eof", Problem: fmt.Sprintf("comes after %d bytes of the %d that the spec promised", s.accepted, s.spec.GetLength())})
	}
	if !bytes.Equal(s.sum.Sum(nil), s.spec.GetSha256()) {
		return wire.Invalid(&wire.FieldError{Field: "data", Problem: "does not have the hash that the spec promised"})
	}
	return nil
}

// run feeds until the exec's end, or until it reads no more.
func (s *stdin) run(over <-chan struct{}) {
	files := &s.exec.files
	var tail sync.WaitGroup
	defer tail.Wait()
	if files.StdinTail != nil {
		typed := pump.NewConduit(files.StdinTail, files.Terminal)
		tail.Go(func() {
			if err := typed.Run(); err != nil {
				s.log.Error("terminal takes no input", "exec", s.exec.id, "error", err)
			}
		})
	}
	ended := make(chan struct{})
	defer close(ended)
	tail.Go(func() {
		// Closing our copies ends whatever waits for room in them; the keeper's are given up with the exec.
		select {
		case <-over:
		case <-ended:
		}
		files.StdinPipe.Close()
		<-over
		if files.StdinTail != nil {
			files.StdinTail.Close()
		}
	})
	if err := s.feed(over); err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.EPIPE) {
		s.log.Error("stdin is not fed", "exec", s.exec.id, "error", err)
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.bell.ring()
}

func (s *stdin) feed(over <-chan struct{}) error {
	pipe, err := s.exec.files.StdinPipe.SyscallConn()
	if err != nil {
		return err
	}
	for {
		again := s.bell.C()
		fed, err := s.fed()
		if err != nil {
			return err
		}
		s.mu.Lock()
		accepted, eof := s.accepted, s.eof
		s.mu.Unlock()
		switch {
		case fed < accepted:
			if err := s.pour(pipe.Write, int(accepted-fed)); err != nil {
				return err
			}
			s.release()
			s.bell.ring()
			continue
		case eof && s.exec.files.StdinTail != nil:
			// A terminal has no end; its end-of-file character stands for one.
			_, err := s.exec.files.StdinPipe.Write([]byte{4})
			return err
		case eof:
			return s.keeper.CloseStdin(s.exec.id)
		}
		select {
		case <-again:
		case <-over:
			return nil
		}
	}
}

// pour splices from the memory's shared position into the pipe.
func (s *stdin) pour(write func(func(uintptr) bool) error, length int) error {
	var step error
	memory := int(s.exec.files.Stdin.Fd())
	err := write(func(fd uintptr) bool {
		for {
			_, step = unix.Splice(memory, nil, int(fd), nil, length, unix.SPLICE_F_NONBLOCK)
			if !errors.Is(step, unix.EINTR) {
				return !errors.Is(step, unix.EAGAIN)
			}
		}
	})
	return errors.Join(err, step)
}

// release gives the memory of fed bytes back, whole pages only: the pipe may still hold the last one.
func (s *stdin) release() {
	fed, err := s.fed()
	if err != nil {
		return
	}
	page := int64(os.Getpagesize())
	if whole := fed / page * page; whole > 0 {
		_ = unix.Fallocate(int(s.exec.files.Stdin.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, whole)
	}
}

// terminateNow kills an exec's tree without a grace.
func terminateNow(e *exec, k keeper.Keeper, cause wirev1.ExitCause, log *slog.Logger) {
	_, err := k.Signal(keeper.Shot{ID: e.id, Signal: int(unix.SIGKILL), Target: wirev1.SignalTarget_SIGNAL_TARGET_TREE, Cause: cause})
	if err != nil {
		log.Error("exec was not signalled", "exec", e.id, "error", err)
	}
}
