//go:build linux

package pump

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// source is the read end of a pipe. At first the runtime's poller watches it, which is cheap for the many
// that say little. But who watches a pipe so is woken by every write to it, also while nobody waits for
// any: a fast writer then costs a wake-up of this process for each of its pages. Once calm, it is watched
// through an epoll of its own that is armed only while somebody waits.
//
// One goroutine waits; the rest may be called by others.
type source struct {
	file *os.File // what the poller watches: the pipe, or the epoll
	pipe int      // the pipe, once calm; else -1
}

func newSource(pipe *os.File) *source { return &source{file: pipe, pipe: -1} }

// wait calls do with the pipe until it returns true, and in between waits for bytes, the pipe's end, or
// interrupt, which is os.ErrDeadlineExceeded.
func (s *source) wait(do func(pipe int) bool) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch a pipe: %w", err)
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		if s.pipe < 0 {
			return do(int(fd))
		}
		if failed = disarm(int(fd)); failed != nil || do(s.pipe) {
			return true
		}
		failed = s.rearm(int(fd))
		return failed != nil
	})
	return errors.Join(err, failed)
}

// look calls do with the pipe, unless it is closed.
func (s *source) look(do func(pipe int)) {
	if s.pipe >= 0 {
		do(s.pipe)
		return
	}
	if raw, err := s.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}

// interrupt ends the wait, now or next time, until resume.
func (s *source) interrupt() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

func (s *source) resume() error { return s.file.SetReadDeadline(time.Time{}) }

// calm changes how the pipe is watched. With an error it is watched as before. Nobody may wait.
func (s *source) calm() error {
	pipe := -1
	var err error
	s.look(func(fd int) { pipe, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil || pipe < 0 {
		return fmt.Errorf("watch a pipe calmly: %w", err)
	}
	own, err := watched(pipe)
	if err != nil {
		_ = unix.Close(pipe)
		return fmt.Errorf("watch a pipe calmly: %w", err)
	}
	s.file.Close()
	s.file, s.pipe = own, pipe
	return nil
}

// watched is an epoll that can be armed for a pipe, and is itself watched by the poller.
func watched(pipe int) (*os.File, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err = unix.SetNonblock(fd, true); err == nil {
		err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, pipe, &unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(pipe)})
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	own := os.NewFile(uintptr(fd), "watch")
	// Only what the poller watches takes deadlines.
	if err := own.SetReadDeadline(time.Time{}); err != nil {
		own.Close()
		return nil, err
	}
	return own, nil
}

// rearm makes the epoll tell the next event, or one that is there already.
func (s *source) rearm(epoll int) error {
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, s.pipe, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(s.pipe)})
}

// disarm takes an event that was told, after which the epoll tells no more. It must be taken: what is
// still listed would not be told again.
func disarm(epoll int) error {
	var events [1]unix.EpollEvent
	for {
		_, err := unix.EpollWait(epoll, events[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s *source) close() {
	s.file.Close()
	if s.pipe >= 0 {
		_ = unix.Close(s.pipe)
		s.pipe = -1
	}
}
