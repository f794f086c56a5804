//go:build linux

package keeper

import (
	"errors"
	"io"
)

// session is one server's life at the keeper's end of its link.
type session struct {
	core *Core
	link *link
	// serving is called once the server answers callers.
	serving func()
}

// run hands the new server everything that lives, then answers it until it is gone. Only then may
// another session begin: two servers would pump one file.
func (s *session) run() error {
	if err := s.greet(); err != nil {
		return err
	}
	for {
		m, fds, err := s.link.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		closeAll(fds)
		if err := s.answer(m); err != nil {
			return err
		}
	}
}

// greet lists the kept execs, under the lock, so that an end is either in the list or told after it.
func (s *session) greet() error {
	k := s.core
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.kept {
		l := &Live{ID: c.id, PID: c.pid, StartedAt: c.startedAt, Ended: c.ended}
		l.Files.expect = c.own.mask()
		if err := s.link.write(&message{kind: kindLive, live: l}, c.own.list()); err != nil {
			return err
		}
	}
	return s.link.write(&message{kind: kindEpoch, text: k.epoch, signal: int64(k.TreeKill())}, nil)
}

func (s *session) answer(m *message) error {
	switch m.kind {
	case kindStart:
		r, own, err := s.core.start(m.order)
		var fds []int
		if r.PID != 0 {
			r.Files.expect, fds = own.mask(), own.list()
		}
		return s.link.write(&message{kind: kindStarted, seq: m.seq, receipt: &r, text: text(err)}, fds)
	case kindSignal:
		h, err := s.core.Signal(*m.shot)
		return s.link.write(&message{kind: kindHit, seq: m.seq, hit: &h, text: text(err)}, nil)
	case kindRelease:
		s.core.Release(m.id)
		return nil
	case kindCloseStdin:
		return s.done(m, s.core.CloseStdin(m.id))
	case kindSweep:
		return s.done(m, s.core.Sweep(int(m.signal)))
	case kindServing:
		s.serving()
		return nil
	}
	return errMessage
}

func (s *session) done(m *message, err error) error {
	return s.link.write(&message{kind: kindDone, seq: m.seq, text: text(err)}, nil)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
