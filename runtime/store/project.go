package store

import (
	"context"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// project adds the changes of rows to a transaction.
func (s Step) project(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, part := range []func(context.Context, *statement.Queries, Claim) error{
		s.projectInputs, s.projectCalls, s.projectCards, s.projectStarts, s.projectExecEnds, s.projectSettled, s.projectEnd,
	} {
		if err := part(ctx, q, c); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectInputs(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, a := range s.Accept {
		if err := q.AcceptInput(ctx, statement.AcceptInputParams{Seq: s.seq(a.At), ID: a.Submission, SessionID: c.Session}); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectCalls(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, e := range s.Intend {
		if err := q.IntendEffect(ctx, statement.IntendEffectParams{
			SessionID: c.Session, CallID: e.Call, SubmissionID: orNil(e.Submission), Class: int16(e.Class), Tool: e.Tool, ArgsSha: nonNil(e.ArgsSHA256),
		}); err != nil {
			return err
		}
	}
	for _, taken := range s.Take {
		if err := q.TakeCallback(ctx, statement.TakeCallbackParams{SessionID: c.Session, CallID: taken.Call}); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectCards(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, r := range s.Request {
		if err := q.RequestApproval(ctx, statement.RequestApprovalParams{
			ID: r.Approval, SessionID: c.Session, CallID: r.Call, TenantID: c.Tenant, SubmissionID: orNil(r.Submission),
			ArgsSha: nonNil(r.ArgsSHA256), Summary: nonNil(r.Summary), RequestedSeq: s.seq(r.At), ExpiresS: r.ExpiresIn.Seconds(),
		}); err != nil {
			return err
		}
	}
	for _, d := range s.Deliver {
		if err := q.DeliverDecision(ctx, statement.DeliverDecisionParams{Seq: s.seq(d.At), ID: d.Approval, SessionID: c.Session}); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectStarts(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, st := range s.Start {
		if err := q.StartEffect(ctx, statement.StartEffectParams{
			Seq: s.seq(st.At), SessionID: c.Session, CallID: st.Call, ArgsSha: nonNil(st.ArgsSHA256), Fence: c.Fence,
		}); err != nil {
			return err
		}
	}
	if s.Slot != nil {
		if err := q.ClaimSlot(ctx, statement.ClaimSlotParams{MachineID: s.Slot.Machine, SessionID: c.Session, Fence: c.Fence}); err != nil {
			return err
		}
	}
	for _, e := range s.Execs {
		if err := q.InsertExec(ctx, statement.InsertExecParams{
			ID: e.ID, SessionID: c.Session, CallID: e.Call, MachineID: e.Machine, Epoch: e.Epoch, Fence: c.Fence,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectExecEnds(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, e := range s.ExecEnds {
		arg := statement.EndExecParams{State: int16(ExecLost), StdoutEnd: e.StdoutEnd, StderrEnd: e.StderrEnd, ID: e.ID, SessionID: c.Session}
		if !e.Lost {
			arg.State, arg.Code = int16(ExecExited), &e.Code
		}
		if err := q.EndExec(ctx, arg); err != nil {
			return err
		}
		if err := q.CloseCallbacks(ctx, e.ID); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectSettled(ctx context.Context, q *statement.Queries, c Claim) error {
	for _, st := range s.Settle {
		if err := q.SettleEffect(ctx, statement.SettleEffectParams{
			Seq: s.seq(st.At), Outcome: int16(st.Outcome), SessionID: c.Session, CallID: st.Call,
		}); err != nil {
			return err
		}
		if st.Answer == nil {
			continue
		}
		if err := q.AnswerCallback(ctx, statement.AnswerCallbackParams{
			Outcome: int16(st.Outcome), Content: nonNil(st.Answer.Content), Answer: nonNil(st.Answer.Data), SessionID: c.Session, CallID: st.Call,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) projectEnd(ctx context.Context, q *statement.Queries, c Claim) error {
	if t := s.Terminalize; t != nil {
		if err := q.Terminalize(ctx, statement.TerminalizeParams{Terminal: nonNil(t.Record), ID: t.Submission, SessionID: c.Session}); err != nil {
			return err
		}
	}
	if f := s.Finish; f != nil {
		return q.SettleSubmission(ctx, statement.SettleSubmissionParams{
			Seq: s.seq(f.At), Outcome: int16(f.Outcome), SessionID: c.Session, ID: f.Submission,
		})
	}
	return nil
}

func orNil(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
