package swap

import (
	"fmt"
	"strings"
)

// Status is how a swap ended.
type Status string

// The statuses.
const (
	// Swapped: the machine runs the wanted version, verified.
	Swapped Status = "swapped"
	// Unchanged: it did already; nothing was written.
	Unchanged Status = "unchanged"
	// Skipped: it was left as it is; nothing was written.
	Skipped Status = "skipped"
	// Failed: it is not as wanted, although that was tried; Outcome.Written tells whether something was written.
	Failed Status = "failed"
)

// Code says why a machine was skipped or failed, for programs.
type Code string

// The codes of Skipped.
const (
	CodeUnreachable Code = "unreachable"       // its host does not answer
	CodeIncomplete  Code = "config_incomplete" // Fly could not read its whole config
	CodeLeased      Code = "leased"            // another holds its lease
	CodeBusy        Code = "busy"              // commands ran until the drain timeout
	CodeOwned       Code = "owned"             // another owns its image
	CodeForeign     Code = "foreign"           // it belongs to another fleet
	CodeGone        Code = "gone"              // it does not exist any more
	CodeConflict    Code = "conflict"          // somebody else changed it since the caller looked
	CodeUnsettled   Code = "unsettled"         // another transition did not end
	CodeBreaker     Code = "breaker"           // too many swaps to this image have failed
	CodeNotStarted  Code = "not_started"       // the run ended before its turn
)

// The codes of Failed.
const (
	CodeReverted Code = "reverted"     // Fly went back to the old version
	CodeNotUp    Code = "not_up"       // the new version did not come to the state of the old one
	CodeChecks   Code = "checks"       // Fly's checks do not pass
	CodeProbe    Code = "probe"        // the control server does not answer any more
	CodeWire     Code = "wire"         // it answers, but speaks no version of the wire that we do
	CodeAPI      Code = "api"          // Fly refused or did not answer
	CodeLost     Code = "lease_lost"   // the lease could not be kept
	CodeCanceled Code = "canceled"     // the caller gave up
	CodeConfig   Code = "config"       // the remote config cannot be edited
	CodeInvalid  Code = "invalid"      // the target itself is wrong
	CodeState    Code = "state_change" // state or cordon could not be put back
)

// Gate says what the new version was judged by.
type Gate string

// The gates, from the least to the most that was asked.
const (
	GateNone   Gate = ""
	GateCold   Gate = "cold"   // not started: instance and digest alone
	GateChecks Gate = "checks" // Fly's checks; the image has no control server
	GateProbe  Gate = "probe"  // and the control server's probe
	GateWire   Gate = "wire"   // and Hello over the wire
)

// Outcome is what became of one machine.
type Outcome struct {
	App     string `json:"app"`
	Machine string `json:"machine"`
	Name    string `json:"name,omitempty"`
	Status  Status `json:"status"`
	// Code is empty for Swapped and Unchanged.
	Code   Code   `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
	Gate   Gate   `json:"gate,omitempty"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	// Written: a new version was sent to Fly.
	Written bool `json:"written"`
	// Interrupted is how many commands ran when the update was sent.
	Interrupted int      `json:"interrupted,omitempty"`
	StateBefore string   `json:"state_before,omitempty"`
	StateAfter  string   `json:"state_after,omitempty"`
	InstanceID  string   `json:"instance_id,omitempty"`
	Seconds     float64  `json:"seconds"`
	Warnings    []string `json:"warnings,omitempty"`
}

// Done reports that the machine is as wanted.
func (o Outcome) Done() bool { return o.Status == Swapped || o.Status == Unchanged }

// Error is a machine that is not as wanted. Unwrap gives the cause where there is one, such as a
// *flyapi.LeaseHeldError.
type Error struct {
	Outcome Outcome
	Err     error
}

// Error implements error.
func (e *Error) Error() string {
	o := e.Outcome
	wrote := "nothing was written"
	if o.Written {
		wrote = "the new version was written"
	}
	return fmt.Sprintf("machine %s of app %s: %s: %s (%s)", o.Machine, o.App, o.Status, strings.TrimSuffix(o.Reason, "."), wrote)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// stop is a reason to go no further, on its way from a decision to an Outcome.
type stop struct {
	status Status
	code   Code
	reason string
	err    error
}

// Error implements error, so that a stop can leave a lease's function.
func (s *stop) Error() string { return s.reason }

// Unwrap gives the cause.
func (s *stop) Unwrap() error { return s.err }

func skip(code Code, format string, args ...any) *stop {
	return &stop{status: Skipped, code: code, reason: fmt.Sprintf(format, args...)}
}

func fail(code Code, format string, args ...any) *stop {
	return &stop{status: Failed, code: code, reason: fmt.Sprintf(format, args...)}
}

func (s *stop) because(err error) *stop {
	s.err = err
	return s
}
