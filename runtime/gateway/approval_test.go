package gateway_test

import (
	"bytes"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
)

var askBeforeExec = tools.Rule{Tool: "exec", Policy: journalv1.Policy_POLICY_ASK}

func (f *face) decide(key, card string, verdict runtimev1.ApprovalVerdict, changes ...func(*runtimev1.DecideRequest)) (*runtimev1.Approval, error) {
	req := &runtimev1.DecideRequest{ApprovalId: card, IdempotencyKey: uuid.NewString(), Verdict: verdict, DecidedBy: "ann"}
	for _, change := range changes {
		change(req)
	}
	got, err := f.client(key).Decide(f.Context(), connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return got.Msg.GetApproval(), nil
}

const (
	approve = runtimev1.ApprovalVerdict_APPROVAL_VERDICT_APPROVE
	deny    = runtimev1.ApprovalVerdict_APPROVAL_VERDICT_DENY
)

// openAll lists a tenant's open cards.
func (f *face) openAll(key string) []*runtimev1.Approval {
	f.Helper()
	got, err := f.client(key).ListApprovals(f.Context(), connect.NewRequest(&runtimev1.ListApprovalsRequest{}))
	f.ok(err)
	return got.Msg.GetApprovals()
}

// omnigent-ai/omnigent#5144, NeoLabs-Systems/NeoAgent#86, MervinPraison/PraisonAI#2326: a card is a row, so it is still
// there and can be answered after every process has been replaced.
// Agenta-AI/agenta#5592: a decision that nobody could act on yet is kept, and acted on once.
func TestCardCanBeAnsweredAfterARestartOnAnotherReplica(t *testing.T) {
	r := newRig(t, askBeforeExec)
	stopExecutor := r.executor()
	first := r.face()
	session := first.session(r.acme)
	submission := first.submit(r.acme, session, "run: echo allowed\nsay: over")
	card := first.card(r.acme, session)
	w := first.watch(r.acme, session, "", "")
	w.until(func(e *runtimev1.StreamEventsResponse) bool {
		return e.GetEntry().GetBody().GetApprovalRequested() != nil
	})
	first.stop()
	stopExecutor()
	w.close()

	second, third := r.face(), r.face()
	if open := second.openAll(r.acme); len(open) != 1 || open[0].GetApprovalId() != card.GetApprovalId() || !bytes.Contains(open[0].GetSummary(), []byte("echo allowed")) {
		t.Fatalf("open cards after the restart: %v", open)
	}
	same := func(d *runtimev1.DecideRequest) { d.IdempotencyKey = "same" }
	decided, err := third.decide(r.acme, card.GetApprovalId(), approve, same)
	r.ok(err)
	if decided.GetState() != runtimev1.ApprovalState_APPROVAL_STATE_APPROVED || decided.GetUsed() || decided.GetDecidedBy() != "ann" {
		t.Errorf("%v", decided)
	}
	if _, err := second.decide(r.acme, card.GetApprovalId(), approve, same); err != nil {
		t.Errorf("the same decision again: %v", err)
	}
	if _, err := second.decide(r.acme, card.GetApprovalId(), deny); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("another decision: %v", err)
	}
	if open := second.openAll(r.acme); len(open) != 0 {
		t.Errorf("a decided card is open: %v", open)
	}

	r.executor()
	if got := second.settled(r.acme, submission.GetSubmissionId()); got.GetOutcome() != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
		t.Errorf("%v", got)
	}
	seen := &told{t: t}
	all := second.watch(r.acme, session, "?output=1", "").until(isSettled)
	seen.take(all...)
	if string(seen.stdout()) != "allowed\n" {
		t.Errorf("output %q", seen.stdout())
	}
}

// letta-ai/lettabot#127, letta-ai/lettabot#479, letta-ai/letta-code#885: a client that lost its card and sends text is not
// refused for ever: the text waits, or takes the place of what waits.
func TestTextWhileACardIsOpenIsTaken(t *testing.T) {
	for name, policy := range map[string]runtimev1.BusyPolicy{
		"queue": runtimev1.BusyPolicy_BUSY_POLICY_QUEUE, "interrupt": runtimev1.BusyPolicy_BUSY_POLICY_INTERRUPT,
		"join": runtimev1.BusyPolicy_BUSY_POLICY_JOIN, "answer": runtimev1.BusyPolicy_BUSY_POLICY_ANSWER,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, askBeforeExec)
			r.executor()
			f := r.face()
			session := f.session(r.acme)
			first := f.submit(r.acme, session, "run: echo gated\nsay: over")
			card := f.card(r.acme, session)
			_, err := f.client(r.acme).Submit(t.Context(), connect.NewRequest(&runtimev1.SubmitRequest{
				SessionId: session, IdempotencyKey: "busy", Parts: text("say: no"), BusyPolicy: runtimev1.BusyPolicy_BUSY_POLICY_REJECT,
			}))
			if connect.CodeOf(err) != connect.CodeFailedPrecondition {
				t.Errorf("a submission that wants no queue: %v", err)
			}
			second := f.submit(r.acme, session, "say: text", func(s *runtimev1.SubmitRequest) { s.BusyPolicy = policy })
			want := journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED
			switch name {
			case "interrupt":
				want = journalv1.SettledOutcome_SETTLED_OUTCOME_CANCELLED
			case "queue":
				_, err := f.decide(r.acme, card.GetApprovalId(), deny)
				r.ok(err)
			}
			if got := f.settled(r.acme, first.GetSubmissionId()); got.GetOutcome() != want {
				t.Errorf("the first: %v", got)
			}
			if got := f.settled(r.acme, second.GetSubmissionId()); got.GetOutcome() != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
				t.Errorf("the second: %v", got)
			}
			if open := f.openAll(r.acme); len(open) != 0 {
				t.Errorf("still open: %v", open)
			}
		})
	}
}
