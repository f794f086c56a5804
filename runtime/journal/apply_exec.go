package journal

import (
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// startExec follows the call's tool_started in the same batch.
func (s *State) startExec(started *journalv1.ExecStarted) string {
	call := s.Calls[started.GetCallId()]
	switch {
	case call == nil:
		return "the call does not exist"
	case call.Class != journalv1.EffectClass_EFFECT_CLASS_ATTACHED:
		return "the call's class has no command"
	case call.State != CallStarted:
		return "the call is " + string(call.State)
	case call.Exec != nil:
		return "the call has its command"
	case started.GetExecId() == "" || s.Execs[started.GetExecId()] != "":
		return "its id is in use"
	}
	call.Exec = &Exec{
		ID: started.GetExecId(), Machine: started.GetMachine(), Epoch: started.GetEpoch(),
		Fence: started.GetFence(), State: ExecIntended,
	}
	if s.Execs == nil {
		s.Execs = map[string]string{}
	}
	s.Execs[call.Exec.ID] = call.ID
	return ""
}

func (s *State) exitExec(exited *journalv1.ExecExited) string {
	exec, reason := s.runningExec(exited.GetCallId(), exited.GetExecId())
	if reason != "" {
		return reason
	}
	exec.State, exec.Code, exec.Signal, exec.Cause = ExecExited, exited.GetCode(), exited.GetSignal(), exited.GetCause()
	exec.StdoutEnd, exec.StderrEnd = exited.GetStdoutEnd(), exited.GetStderrEnd()
	return ""
}

func (s *State) loseExec(lost *journalv1.ExecLost) string {
	exec, reason := s.runningExec(lost.GetCallId(), lost.GetExecId())
	if reason != "" {
		return reason
	}
	exec.State, exec.Cause = ExecLost, lost.GetReason()
	exec.StdoutEnd, exec.StderrEnd = lost.GetStdoutEnd(), lost.GetStderrEnd()
	return ""
}

func (s *State) runningExec(call, id string) (*Exec, string) {
	switch c := s.Calls[call]; {
	case c == nil || c.Exec == nil || c.Exec.ID != id:
		return nil, "the command was not started"
	case c.Exec.State != ExecIntended:
		return nil, "the command is " + string(c.Exec.State)
	default:
		return c.Exec, ""
	}
}
