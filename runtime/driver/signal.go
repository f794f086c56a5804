package driver

import (
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"

	"golang.org/x/sys/unix"
)

const (
	// termGrace is how long a command has between TERM and KILL.
	termGrace = 5 * time.Second
	// askTime bounds one question to a machine about a command.
	askTime = 30 * time.Second
)

// stopCall tells what works on a call here to end.
func (s *session) stopCall(call string) {
	s.noteStopped(call)
	if this := s.calls[call]; this != nil {
		this.stop(errStopped)
	}
}

func (s *session) noteStopped(call string) {
	s.stopped[call] = true
	if s.stoppedAt.IsZero() {
		s.stoppedAt = time.Now()
	}
}

// signal ends a command: TERM to its process group, then KILL to all that it started. One that never started never will.
func (s *session) signal(a turn.SignalExec) {
	s.noteStopped(a.Call)
	exec := s.state.Calls[a.Call].Exec
	id, machine := exec.ID, exec.Machine
	s.own(func() {
		if err := s.endExec(id, machine); err != nil && s.ctx.Err() == nil {
			s.log.WarnContext(s.ctx, "a command could not be told to end", "exec", id, "error", err)
		}
	})
}

func (s *session) endExec(id, machine string) error {
	place, err := s.places.open(s.ctx, nil)
	if err != nil || place.Machine != machine {
		return err
	}
	forbidden, err := place.Box.Forbid(s.ctx, id)
	if forbidden || err != nil && !errors.Is(err, sandbox.ErrUnsupported) {
		return err
	}
	process, err := place.Box.Attach(s.ctx, id)
	if err != nil {
		return err
	}
	running, err := process.Signal(s.ctx, int(unix.SIGTERM), sandbox.Group)
	if err != nil || !running {
		return err
	}
	if err := pause(s.ctx, termGrace); err != nil {
		return nil //nolint:nilerr // the claim is over
	}
	_, err = process.Signal(s.ctx, int(unix.SIGKILL), sandbox.Tree)
	return err
}
