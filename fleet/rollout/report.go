package rollout

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// Report accounts for every selected machine.
type Report struct {
	Fleet string `json:"fleet"`
	Image string `json:"image"`
	// Machines holds one outcome per machine, in the order of app and id.
	Machines []swap.Outcome `json:"machines"`
	// ErrorRegions could not be listed: machines there are not in the report.
	ErrorRegions []string `json:"error_regions,omitempty"`
	Notes        []string `json:"notes,omitempty"`
	Seconds      float64  `json:"seconds"`
}

// Counts is the number of machines by status.
type Counts struct {
	Swapped   int `json:"swapped"`
	Unchanged int `json:"unchanged"`
	Skipped   int `json:"skipped"`
	Failed    int `json:"failed"`
}

// Counts counts.
func (r Report) Counts() Counts {
	var c Counts
	for _, m := range r.Machines {
		switch m.Status {
		case swap.Swapped:
			c.Swapped++
		case swap.Unchanged:
			c.Unchanged++
		case swap.Skipped:
			c.Skipped++
		default:
			c.Failed++
		}
	}
	return c
}

// The exit statuses of a run.
const (
	ExitDone    = 0 // every machine of the fleet runs the image
	ExitFailed  = 1 // at least one swap failed
	ExitPartial = 2 // none failed, but machines were skipped or could not be listed: run again later
)

// ExitCode maps the report to a process's exit status.
func (r Report) ExitCode() int {
	c := r.Counts()
	switch {
	case c.Failed > 0:
		return ExitFailed
	case c.Skipped > 0 || len(r.ErrorRegions) > 0:
		return ExitPartial
	}
	return ExitDone
}

// Summary is one line for people.
func (r Report) Summary() string {
	c := r.Counts()
	s := fmt.Sprintf("%d swapped, %d unchanged, %d skipped, %d failed of %d machines of fleet %s in %.1f s",
		c.Swapped, c.Unchanged, c.Skipped, c.Failed, len(r.Machines), r.Fleet, r.Seconds)
	if len(r.ErrorRegions) > 0 {
		s += fmt.Sprintf("; regions not listed: %v", r.ErrorRegions)
	}
	return s
}
