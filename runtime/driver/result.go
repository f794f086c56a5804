package driver

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

// settleResult commits what a call came to: its command's end and its result are one batch.
func (s *session) settleResult(j job, result tools.Result) error {
	call := s.state.Calls[j.call]
	if call.Settled() {
		return nil
	}
	outcome := journalv1.ToolOutcome_TOOL_OUTCOME_OK
	switch {
	case result.Unknown:
		outcome = journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN
	case result.Failed:
		outcome = journalv1.ToolOutcome_TOOL_OUTCOME_ERROR
	}
	var step store.Step
	var bodies []*journalv1.Body
	if call.Exec != nil && call.Exec.State == journal.ExecIntended {
		body, end, err := execEnd(call, result)
		if err != nil {
			return err
		}
		bodies, step.ExecEnds = append(bodies, body), []store.ExecEnd{end}
	}
	told := toolResult(call.ID, outcome, s.titled(call, result.Content))
	step.Settle = []store.Settle{{Call: call.ID, Outcome: outcome, Answer: s.answerOf(call, result.Content, result.Answer), At: len(bodies)}}
	told.GetToolResult().Masked = int32(result.Masks)
	return s.commit(step, append(bodies, told)...)
}

func toolResult(call string, outcome journalv1.ToolOutcome, content []byte) *journalv1.Body {
	return &journalv1.Body{Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{CallId: call, Outcome: outcome, Content: content}}}
}

// execEnd is how the handle of an attached call ended. An operation on files has no output and no exit code.
func execEnd(call *journal.Call, result tools.Result) (*journalv1.Body, store.ExecEnd, error) {
	id, invalid := uuid.Parse(call.Exec.ID)
	if invalid != nil {
		return nil, store.ExecEnd{}, invalid
	}
	if result.Lost != nil {
		body, end := lostEnd(call, id, result.Lost)
		return body, end, nil //nolint:nilerr // it says how the command ended
	}
	exit := sandbox.Exit{Cause: sandbox.CauseExited}
	if result.Exit != nil {
		exit = *result.Exit
	}
	return &journalv1.Body{Body: &journalv1.Body_ExecExited{ExecExited: &journalv1.ExecExited{
		CallId: call.ID, ExecId: call.Exec.ID, Code: int32(exit.Code), Signal: int32(exit.Signal), Cause: string(exit.Cause),
		StdoutEnd: exit.Ends.Stdout, StderrEnd: exit.Ends.Stderr,
	}}}, store.ExecEnd{
		ID: id, Code: int32(exit.Code), StdoutEnd: exit.Ends.Stdout, StderrEnd: exit.Ends.Stderr,
	}, nil
}

func lostEnd(call *journal.Call, id uuid.UUID, lost *sandbox.LostError) (*journalv1.Body, store.ExecEnd) {
	return &journalv1.Body{Body: &journalv1.Body_ExecLost{ExecLost: &journalv1.ExecLost{
		CallId: call.ID, ExecId: call.Exec.ID, Reason: lost.Reason, StdoutEnd: lost.Ends.Stdout, StderrEnd: lost.Ends.Stderr,
	}}}, store.ExecEnd{ID: id, Lost: true, StdoutEnd: lost.Ends.Stdout, StderrEnd: lost.Ends.Stderr}
}

// settleCall closes a call without its tool having said anything.
func (s *session) settleCall(id string, outcome journalv1.ToolOutcome, content []byte) error {
	call := s.state.Calls[id]
	if call.Settled() {
		return nil
	}
	told := toolResult(id, outcome, s.titled(call, content))
	step := store.Step{Settle: []store.Settle{{Call: id, Outcome: outcome, Answer: s.answerOf(call, content, nil)}}}
	if call.Exec != nil && call.Exec.State == journal.ExecIntended {
		// Nobody asks for it again; the journal says nothing of its end, for nobody knows.
		exec, err := uuid.Parse(call.Exec.ID)
		if err != nil {
			return err
		}
		step.ExecEnds = []store.ExecEnd{{ID: exec, Lost: true}}
	}
	return s.commit(step, told)
}

// machineGone is the result of a call whose command was on a machine that the session has no more.
func (s *session) machineGone(ctx context.Context, j job) error {
	id, err := uuid.Parse(j.exec.ID)
	if err != nil {
		return err
	}
	ends, err := s.options.Store.OutputEnds(ctx, id)
	if err != nil {
		return err
	}
	lost := &sandbox.LostError{
		ID: j.exec.ID, Reason: "its machine is gone", Ends: sandbox.Offsets{Stdout: ends.Stdout, Stderr: ends.Stderr},
	}
	return s.in(ctx, func() error {
		return s.settleResult(j, tools.Result{
			Failed: true, Lost: lost, Content: []byte("[lost: the machine is gone. How the command ended is not known; it was not started again]\n"),
		})
	})
}

// forgetTime bounds how long the end of a session waits for a machine to drop output that is kept here.
const forgetTime = 5 * time.Second

// forget lets the machine drop output that has been committed. It may fail: the machine forgets by itself, later.
func (s *session) forget(exec journal.Exec, place *Place) {
	if exec.ID == "" {
		return
	}
	s.own(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), forgetTime)
		defer cancel()
		process, err := place.Box.Attach(ctx, exec.ID)
		if err == nil {
			err = process.Forget(ctx)
		}
		if err != nil {
			s.log.DebugContext(ctx, "the machine was not told to forget a command", "exec", exec.ID, "error", err)
		}
	})
}
