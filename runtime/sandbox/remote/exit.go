package remote

import (
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

var causes = map[wirev1.ExitCause]sandbox.Cause{
	wirev1.ExitCause_EXIT_CAUSE_EXITED:             sandbox.CauseExited,
	wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT: sandbox.CauseSignalled,
	wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT:       sandbox.CauseTimeout,
	wirev1.ExitCause_EXIT_CAUSE_UNATTENDED:         sandbox.CauseUnattended,
	wirev1.ExitCause_EXIT_CAUSE_CAP:                sandbox.CauseOutput,
	wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING:   sandbox.CauseStopping,
	wirev1.ExitCause_EXIT_CAUSE_START_FAILED:       sandbox.CauseStartFailed,
	wirev1.ExitCause_EXIT_CAUSE_OUT_OF_MEMORY:      sandbox.CauseMemory,
	wirev1.ExitCause_EXIT_CAUSE_STDIN_MISMATCH:     sandbox.CauseStdin,
}

var messages = map[sandbox.Cause]string{
	sandbox.CauseSignalled:  "ended by a signal from outside",
	sandbox.CauseTimeout:    "its time was over",
	sandbox.CauseUnattended: "nobody followed it",
	sandbox.CauseStopping:   "the machine went down",
	sandbox.CauseMemory:     "the machine's memory was used up",
	sandbox.CauseOutput:     "it wrote more than it may",
	sandbox.CauseStdin:      "its input did not arrive whole",
}

func exitOf(id string, e *wirev1.Exit) sandbox.Exit {
	exit := sandbox.Exit{ID: id}
	if e == nil {
		return exit
	}
	exit.Code, exit.Signal, exit.Message = int(e.GetCode()), int(e.GetSignal()), e.GetMessage()
	exit.Ends = sandbox.Offsets{Stdout: int64(e.GetStdoutEnd()), Stderr: int64(e.GetStderrEnd())}
	if exit.Signal != 0 {
		exit.Code = 128 + exit.Signal
	}
	var known bool
	if exit.Cause, known = causes[e.GetCause()]; !known {
		exit.Cause = sandbox.CauseExited
	}
	if exit.Message == "" {
		exit.Message = messages[exit.Cause]
	}
	return exit
}
