package driver

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// commitStart writes down that the call may happen from now on; j then is a call that was started. One that needs no machine has
// no place.
func (s *session) commitStart(ctx context.Context, j *job, place *Place) error {
	exec := journal.Exec{}
	if j.class == journalv1.EffectClass_EFFECT_CLASS_ATTACHED {
		// The life that the machine has now: a command of another one must not be started by its id.
		description, err := place.Box.Describe(ctx)
		if err != nil {
			return err
		}
		exec = journal.Exec{ID: store.NewID().String(), Machine: place.Machine, Epoch: description.Epoch, Fence: s.claim.Fence}
	}
	var slot *store.Slot
	if place != nil {
		slot = place.Slot
	}
	err := s.in(ctx, func() error { return s.start(*j, exec, slot) })
	if err != nil {
		return err
	}
	j.start, j.exec = nil, exec
	return nil
}

// start is the compare-and-set. A call that may not start any more, for it was cancelled meanwhile, stays as it is.
func (s *session) start(j job, exec journal.Exec, slot *store.Slot) error {
	call := s.state.Calls[j.call]
	if !s.mayStart(call) {
		return errCannot
	}
	bodies := []*journalv1.Body{{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{
		CallId: call.ID, IdempotencyKey: j.start.Key, ApprovalId: j.start.ApprovalID,
	}}}}
	step := store.Step{Start: []store.Start{{Call: call.ID, ArgsSHA256: journal.ArgsSHA256(j.args)}}}
	if exec.ID != "" {
		bodies = append(bodies, &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{
			CallId: call.ID, ExecId: exec.ID, Machine: exec.Machine, Epoch: exec.Epoch, Fence: exec.Fence,
		}}})
		id, err := uuid.Parse(exec.ID)
		if err != nil {
			return err
		}
		step.Execs = []store.Exec{{ID: id, Call: call.ID, Machine: exec.Machine, Epoch: exec.Epoch}}
		step.Slot = slot
	}
	err := s.commit(step, bodies...)
	switch {
	case errors.Is(err, store.ErrNotStarted):
		s.log.ErrorContext(s.ctx, "a call may not be started", "call", call.ID, "error", err)
		if err := s.settleCall(call.ID, journalv1.ToolOutcome_TOOL_OUTCOME_ERROR, []byte("It was not done: it may not be started.")); err != nil {
			return err
		}
		return errCannot
	case errors.Is(err, store.ErrLapsed):
		return errors.Join(errCannot, err)
	case errors.Is(err, store.ErrNoSlot):
		return errors.Join(errCannot, err)
	}
	return err
}

func (s *session) mayStart(call *journal.Call) bool {
	f := s.facts()
	if !f.Trusted || f.Draining || f.Cancel || f.DeadlinePassed {
		return false
	}
	return call.State == journal.CallIntended || call.State == journal.CallApproved
}
