package journal

import (
	"bytes"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

func (s *State) callTool(entry Entry, called *journalv1.ToolCalled) string {
	call := &Call{
		ID: called.GetCallId(), Tool: called.GetTool(), Seq: entry.Seq, ArgsSHA256: called.GetArgsSha256(),
		Class: called.GetClass(), Policy: called.GetPolicy(), Block: called.GetBlock(), State: CallIntended,
	}
	if call.Policy == journalv1.Policy_POLICY_DENY {
		call.State = CallRefused
	}
	switch {
	case call.ID == "":
		return "it has no call id"
	case s.Calls[call.ID] != nil:
		return "the call exists"
	case call.Nested():
		if reason := s.nest(call); reason != "" {
			return reason
		}
	default:
		if reason := s.ask(call); reason != "" {
			return reason
		}
	}
	if s.Calls == nil {
		s.Calls = map[string]*Call{}
	}
	s.Calls[call.ID] = call
	s.Batch = append(s.Batch, call.ID)
	return ""
}

// ask adds a call that the answer just before asks for.
func (s *State) ask(call *Call) string {
	n := len(s.Conversation)
	if n == 0 || s.Conversation[n-1].Answer == nil {
		return "no answer asks for it"
	}
	answer := s.Conversation[n-1].Answer
	if answer.Redacted {
		answer.Calls = append(answer.Calls, call.ID)
		s.Answered = false
		return ""
	}
	asking := -1
	for i, seen := 0, 0; i < len(answer.Blocks); i++ {
		if answer.Blocks[i].Kind == journalv1.BlockKind_BLOCK_KIND_TOOL_CALL {
			if seen == len(answer.Calls) {
				asking = i
				break
			}
			seen++
		}
	}
	if asking < 0 || int(call.Block) != asking {
		return "that block of the answer does not ask for it now"
	}
	answer.Calls = append(answer.Calls, call.ID)
	return ""
}

// nest adds a call that a running command asks for: its id is the exec's and the command's own name for it.
func (s *State) nest(call *Call) string {
	exec, name, _ := strings.Cut(call.ID, "/")
	parent := s.Calls[s.Execs[exec]]
	if name == "" || parent == nil || parent.Settled() || s.torn() {
		return "no running command asks for it"
	}
	call.Within = exec
	return ""
}

func (s *State) requestApproval(entry Entry, requested *journalv1.ApprovalRequested) string {
	call := s.Calls[requested.GetCallId()]
	switch {
	case call == nil:
		return "the call does not exist"
	case call.State != CallIntended:
		return "the call is " + string(call.State)
	case call.Policy != journalv1.Policy_POLICY_ASK:
		return "the call needs no approval"
	case requested.GetApprovalId() == "":
		return "it has no approval id"
	case !bytes.Equal(requested.GetArgsSha256(), call.ArgsSHA256):
		return "what is shown is not what the call would do"
	}
	call.State = CallParked
	call.Approval = &Approval{
		ID: requested.GetApprovalId(), Seq: entry.Seq,
		ArgsSHA256: requested.GetArgsSha256(), ExpiresAtMS: requested.GetExpiresAtMs(),
	}
	return ""
}

func (s *State) decideApproval(decided *journalv1.ApprovalDecided) string {
	call := s.Calls[decided.GetCallId()]
	switch {
	case call == nil || call.Approval == nil || call.Approval.ID != decided.GetApprovalId():
		return "the approval was not requested"
	case !call.Approval.Pending():
		return "it was decided before"
	case (decided.GetDecision() == journalv1.Decision_DECISION_EDITED) != (len(decided.GetArgs()) > 0):
		return "arguments come with an edit, and only with it"
	}
	approval := call.Approval
	approval.Decision, approval.By, approval.Reason = decided.GetDecision(), decided.GetBy(), decided.GetReason()
	switch decided.GetDecision() {
	case journalv1.Decision_DECISION_APPROVED:
		call.State = CallApproved
	case journalv1.Decision_DECISION_EDITED:
		call.State = CallApproved
		approval.Args = decided.GetArgs()
		call.ArgsSHA256 = ArgsSHA256(approval.Args)
	default:
		call.State = CallRefused
	}
	return ""
}

func (s *State) startTool(entry Entry, started *journalv1.ToolStarted) string {
	call := s.Calls[started.GetCallId()]
	if call == nil {
		return "the call does not exist"
	}
	gated := call.Policy == journalv1.Policy_POLICY_ASK
	switch {
	case gated && call.State != CallApproved, !gated && call.State != CallIntended:
		return "the call is " + string(call.State)
	case gated && started.GetApprovalId() != call.Approval.ID:
		return "that is not its approval"
	case !gated && started.GetApprovalId() != "":
		return "the call needs no approval"
	case (call.Class == journalv1.EffectClass_EFFECT_CLASS_KEYED) != (started.GetIdempotencyKey() != ""):
		return "a key comes with a keyed call, and only with it"
	}
	call.State, call.Key = CallStarted, started.GetIdempotencyKey()
	call.StartedSeq, call.StartedFence = entry.Seq, entry.Fence
	if gated {
		call.Approval.Consumed = true
	}
	return ""
}

func (s *State) settleCall(entry Entry, result *journalv1.ToolResult) string {
	call := s.Calls[result.GetCallId()]
	if call == nil {
		return "the call does not exist"
	}
	if reason := call.mayEnd(result.GetOutcome()); reason != "" {
		return reason
	}
	outcome := &Result{Seq: entry.Seq, Outcome: result.GetOutcome(), Content: result.GetContent(), Masked: result.GetMasked()}
	for _, a := range result.GetAttachments() {
		outcome.Attachments = append(outcome.Attachments, attachmentOf(a))
	}
	s.Masked += int64(result.GetMasked())
	call.close(outcome)
	return ""
}

// mayEnd says what keeps a call from having such a result now.
func (c *Call) mayEnd(outcome journalv1.ToolOutcome) string {
	started := c.State == CallStarted
	switch outcome {
	case journalv1.ToolOutcome_TOOL_OUTCOME_DENIED:
		erased := c.State == CallApproved && c.Approval != nil && c.Approval.Redacted
		if c.State != CallRefused && !erased {
			return "nobody denied the call; it is " + string(c.State)
		}
	case journalv1.ToolOutcome_TOOL_OUTCOME_OK:
		pure := c.Class == journalv1.EffectClass_EFFECT_CLASS_PURE && c.State == CallIntended && c.Policy == journalv1.Policy_POLICY_ALLOW
		if !started && !pure {
			return "the call was not started; it is " + string(c.State)
		}
		if c.Exec != nil && c.Exec.State == ExecIntended {
			return "its command has not ended"
		}
	case journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN:
		if !started {
			return "the call was not started; it is " + string(c.State)
		}
	}
	switch {
	case c.Settled():
		return "the call has its result"
	case c.State == CallParked:
		return "its card is open"
	}
	return ""
}

func (c *Call) close(result *Result) {
	if c.Approval != nil && c.Approval.Pending() {
		c.Approval.Decision = journalv1.Decision_DECISION_CANCELLED
	}
	if c.Exec != nil && c.Exec.State == ExecIntended {
		c.Exec.State = ExecLeft
	}
	c.State, c.Result = CallSettled, result
}
