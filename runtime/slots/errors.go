package slots

import (
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// NoMachineError says that a tenant has no machine, and that no pool is there to give it one.
type NoMachineError struct{ Tenant, Fleet string }

func (e *NoMachineError) Error() string {
	return fmt.Sprintf("tenant %s has no machine in fleet %s: make one with metadata flyfleet_fleet and flyfleet_tenant, or name a warm pool", e.Tenant, e.Fleet)
}

// ForeignError says that a machine belongs to another tenant than the session's.
type ForeignError struct{ Machine, Tenant string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("machine %s does not belong to tenant %s", e.Machine, e.Tenant)
}

// goneError says that a machine does not exist any more, for sure.
type goneError struct{ machine string }

func (e *goneError) Error() string { return "machine " + e.machine + " is gone" }

// unavailable is what a caller waits for. Nothing was done on a machine.
func unavailable(after time.Duration, err error, format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	if err != nil {
		reason += ": " + err.Error()
	}
	return &sandbox.UnavailableError{Reason: reason, RetryAfter: after, Refused: true, Err: err}
}
