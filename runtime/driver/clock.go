package driver

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// clocks are those of commands in which a person is asked about a call. They are on the machines; here is what this owner has
// done about them.
type clocks struct {
	// held are the commands whose clock this owner has stopped, since when it was last told to.
	held  map[string]bool
	since map[string]time.Time
	// busy are those that a machine is being told about.
	busy map[string]bool
	// ended are commands of which the machine says so.
	ended map[string]bool
}

func newClocks() *clocks {
	return &clocks{held: map[string]bool{}, since: map[string]time.Time{}, busy: map[string]bool{}, ended: map[string]bool{}}
}

// holdKey names the holds of cards among others.
const holdKey = "card"

// glance is how long a command is followed to learn whether it still runs. It is more than the tick of a machine's clock, which
// then knows that the command is not left alone.
const glance = 1500 * time.Millisecond

// hold stops a command's clock, or lets it go on. It counts once the machine has said so: a session that would park before
// that would leave the clock as it is.
func (s *session) hold(a turn.HoldExec) (did, error) {
	s.setClock(a.Exec, a.Hold)
	return nothing, nil
}

func (s *session) setClock(exec string, hold bool) {
	c := s.clocks
	if c.busy[exec] {
		return
	}
	c.busy[exec] = true
	call := s.state.Execs[exec]
	machine, followed := s.state.Calls[call].Exec.Machine, s.calls[call] != nil
	s.own(func() {
		ended, err := s.tellClock(exec, machine, hold, followed)
		if err != nil {
			_ = pause(s.ctx, failedPatience)
		}
		s.tell(func() error {
			delete(c.busy, exec)
			switch {
			case err != nil:
				s.log.WarnContext(s.ctx, "the clock of a command was not changed", "exec", exec, "hold", hold, "error", err)
			case ended:
				c.ended[exec] = true
				delete(c.held, exec)
			default:
				c.held[exec], c.since[exec] = hold, time.Now()
			}
			return nil
		})
	})
}

// tellClock tells the machine, and learns whether the command has ended, unless somebody follows it here.
func (s *session) tellClock(exec, machine string, hold, followed bool) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, askTime)
	defer cancel()
	place, err := s.places.open(ctx, nil)
	if err != nil {
		return false, err
	}
	if place.Machine != machine {
		return true, nil
	}
	process, err := place.Box.Attach(ctx, exec)
	if err == nil {
		d := time.Duration(0)
		if hold {
			d = s.options.HoldTime
		}
		err = process.Hold(ctx, holdKey, d)
	}
	if isOver(err) {
		return true, nil
	}
	if err != nil || !hold || followed {
		return false, err
	}
	return s.hasEnded(ctx, process)
}

// isOver: what the machine says is not about a command that runs.
func isOver(err error) bool {
	lost := new(sandbox.LostError)
	return errors.As(err, &lost) || errors.Is(err, sandbox.ErrUnknown) || errors.Is(err, sandbox.ErrExpired)
}

// hasEnded follows the command until it is silent for a moment.
func (s *session) hasEnded(ctx context.Context, process sandbox.Process) (bool, error) {
	id, err := uuid.Parse(process.ID())
	if err != nil {
		return false, err
	}
	ends, err := s.options.Store.OutputEnds(ctx, id)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(glance, func() { cancel(errSilence) })
	defer silence.Stop()
	_, err = process.Follow(ctx, sandbox.Offsets{Stdout: ends.Stdout, Stderr: ends.Stderr}, func(sandbox.Output) error {
		silence.Reset(glance)
		return nil
	})
	switch {
	case err == nil, isOver(err):
		return true, nil
	case errors.Is(err, errSilence):
		return false, nil
	}
	return false, err
}

var errSilence = errors.New("the command says nothing")

// renewHolds tells machines again of clocks that are to stand on.
func (s *session) renewHolds() {
	for exec, held := range s.clocks.held {
		if held && time.Since(s.clocks.since[exec]) > s.options.HoldTime/3 {
			s.setClock(exec, true)
		}
	}
}

// unhold lets the clock go on that an owner before may have stopped. A command that is not there has none.
func (s *session) unhold(ctx context.Context, j job, place *Place) {
	mine := false
	c := (*clocks)(nil)
	err := s.in(ctx, func() error {
		// One that this owner stops, or is about to, stands.
		c = s.clocks
		if mine = !c.held[j.exec.ID] && !c.busy[j.exec.ID]; mine {
			c.busy[j.exec.ID] = true
		}
		return nil
	})
	if err != nil || !mine {
		return
	}
	defer s.tell(func() error {
		delete(c.busy, j.exec.ID)
		return nil
	})
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	process, err := place.Box.Attach(ctx, j.exec.ID)
	if err == nil {
		err = process.Hold(ctx, holdKey, 0)
	}
	if err != nil {
		s.log.DebugContext(ctx, "no clock was let go on", "exec", j.exec.ID, "error", err)
	}
}
