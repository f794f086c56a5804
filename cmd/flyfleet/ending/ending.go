// Package ending says how an exec ended, in the words and codes of a shell.
package ending

import (
	"fmt"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Unknown is the exit code when the command's own code is not known.
const Unknown = 125

// Verdict is the exit code as a shell would see it, and what to tell a person besides.
func Verdict(r client.Result) (code int, note string) {
	switch {
	case r.Lost != nil:
		return Unknown, fmt.Sprintf("the machine cannot tell how the command ended (%s); it may have run", Word(r.Lost.GetReason().String(), "LOST_REASON_"))
	case r.Exit == nil:
		return Unknown, "the machine did not say how the command ended"
	}
	switch r.Exit.GetCause() {
	case wirev1.ExitCause_EXIT_CAUSE_EXITED, wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT:
	default:
		note = "the command ended by " + Cause(r.Exit)
		if m := r.Exit.GetMessage(); m != "" {
			note += ": " + m
		}
	}
	for _, g := range r.Gaps {
		note = strings.TrimPrefix(note+"; "+Gap(g), "; ")
	}
	return Code(r.Exit), note
}

// Code is an exit as a shell would see it: 128 + n for a death by signal n.
func Code(e *wirev1.Exit) int {
	if n := int(e.GetSignal()); n != 0 {
		return 128 + n
	}
	return int(e.GetCode())
}

// Cause is an exit's cause in words, empty when it has none.
func Cause(e *wirev1.Exit) string {
	if e.GetCause() == wirev1.ExitCause_EXIT_CAUSE_UNSPECIFIED {
		return ""
	}
	return Word(e.GetCause().String(), "EXIT_CAUSE_")
}

// Gap tells of bytes that the machine did not keep.
func Gap(g *wirev1.Gap) string {
	return fmt.Sprintf("the machine did not keep bytes %d to %d of its %s (%s)", g.GetFrom(), g.GetTo(),
		Word(g.GetStream().String(), "STREAM_"), Word(g.GetReason().String(), "GAP_REASON_"))
}

// Word is the name of an enum's value in plain English.
func Word(enum, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(enum, prefix)), "_", " ")
}
