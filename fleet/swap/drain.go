package swap

import (
	"context"
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const (
	// execTimeout is how long one probe may take on the machine.
	execTimeout = 10 * time.Second
	// reopenTimeout is what a resume gets when the caller's context has ended.
	reopenTimeout = 20 * time.Second
)

// drain asks a started machine for running commands until the swap may go ahead. When nothing runs, the same question
// closes the door, so nothing can start between the answer and the update.
func (s *session) drain(ctx context.Context, m *flyapi.Machine) *stop {
	if m.State != flyapi.StateStarted || s.ready(m) {
		return nil
	}
	deadline := time.Now().Add(s.t.DrainTimeout)
	for {
		asked := time.Now()
		p, err := readProbe(s.engine.api.ExecMachine(ctx, s.t.App, s.t.Machine, quiesceCommand(), execTimeout))
		if err != nil {
			return s.unasked(ctx, asked, err)
		}
		d, closed, reason := readQuiesce(p, s.t.Busy)
		if closed {
			s.closedUntil = asked.Add(quiesceFor)
		}
		if d == goAhead {
			s.asked, s.voice = true, p.voice
			s.out.Interrupted = 0
			if p.voice == answered && !closed {
				s.out.Interrupted = p.said.Running
			}
			if p.voice == silent {
				s.warn(reason + "; whether commands ran is not known")
			}
			return nil
		}
		if !time.Now().Add(s.engine.opt.Poll).Before(deadline) {
			return skip(CodeBusy, "%s for %s; wait, or swap with busy = interrupt", reason, s.t.DrainTimeout)
		}
		if err := pause(ctx, s.engine.opt.Poll); err != nil {
			return s.trouble(ctx, err)
		}
	}
}

// unasked judges a question that could not be put. A machine that stopped meanwhile needs no question.
func (s *session) unasked(ctx context.Context, asked time.Time, err error) *stop {
	if flyapi.Unsure(err) || ctx.Err() != nil {
		s.closedUntil = asked.Add(quiesceFor) // the door may be shut: it is opened again
		return s.trouble(ctx, err)
	}
	m, gerr := s.engine.api.GetMachine(ctx, s.t.App, s.t.Machine)
	switch {
	case gerr == nil && m.State != flyapi.StateStarted:
		return nil
	case gerr == nil && declaresNone(m):
		s.asked, s.voice = true, absent
		s.warn(fmt.Sprintf("Fly refused to run a probe, and the machine declares no control server: its commands were not asked for (%v)", err))
		return nil
	}
	return s.trouble(ctx, err)
}

// declaresNone reports that nothing says that the machine's image has a control server.
//
// Assumption: how Fly words the refusal of a program that is not in the image is not known for sure; an image that
// never claimed to have one must be swappable whatever the words are.
func declaresNone(m *flyapi.Machine) bool { return m.Metadata()[MetadataWire] == "" }

// ready reports that the update may be sent: nothing can run, or the door is shut for long enough still.
func (s *session) ready(m *flyapi.Machine) bool {
	if m.State != flyapi.StateStarted {
		return true
	}
	return s.asked && (s.closedUntil.IsZero() || time.Until(s.closedUntil) > quiesceMargin)
}

// reopen lets commands in again when the door was closed for a swap that did not happen. It works also after the caller
// gave up, and its failure is no more than a warning: the door opens by itself.
func (s *session) reopen(ctx context.Context) {
	if s.closedUntil.IsZero() || s.out.Written {
		return
	}
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reopenTimeout)
	defer cancel()
	p, err := readProbe(s.engine.api.ExecMachine(rctx, s.t.App, s.t.Machine, resumeCommand(), execTimeout))
	if err != nil || p.voice != answered {
		s.warn("it may refuse new commands until " + s.closedUntil.UTC().Format(time.RFC3339) + ": the door could not be opened again")
	}
}
