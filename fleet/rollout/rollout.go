// Package rollout swaps the image of a whole fleet, or of one machine of it, and accounts for every machine: swapped,
// unchanged, skipped or failed, with the reason.
//
// The fleet is found by metadata (flyfleet_fleet) in the organization-wide list; each machine goes through package swap,
// a bounded number at a time. No machine's trouble stops the others, except the breaker of the engine: after three
// failed swaps to one image the rest are left alone.
package rollout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// Source lists machines; *flyapi.Client is one.
type Source interface {
	OrgMachines(ctx context.Context) (flyapi.MachineList, error)
}

// Swapper swaps one machine; *swap.Engine is one.
type Swapper interface {
	Swap(ctx context.Context, t swap.Target) (swap.Outcome, error)
}

// Options tune a Runner. The zero value is usable.
type Options struct {
	// Concurrency is how many machines are swapped at a time; 0 means 8 (15 at once were refused by Fly's rate limit,
	// flyctl PR#3961).
	Concurrency int
	// Target carries what is the same for all machines: As, Force, Busy, OnCold and the timeouts. App, Machine, Image and
	// Fleet are set by the run.
	Target swap.Target
	// Progress is called with each outcome as it comes, one call at a time; nil for none.
	Progress func(swap.Outcome)
}

// Runner runs rollouts. Make it with New.
type Runner struct {
	source Source
	engine Swapper
	opt    Options
}

// New makes a runner.
func New(source Source, engine Swapper, opt Options) *Runner {
	if opt.Concurrency <= 0 {
		opt.Concurrency = 8
	}
	return &Runner{source: source, engine: engine, opt: opt}
}

// Run swaps the selected machines to image. The error is for a run that could not begin (nothing selected, the list
// unreadable, no image); what became of machines is in the Report only. When ctx ends, machines whose turn had not
// come are reported as skipped, not_started.
func (r *Runner) Run(ctx context.Context, sel Selection, image string) (Report, error) {
	began := time.Now()
	report := Report{Fleet: sel.Fleet, Image: image, Notes: []string{swap.SecretsNote}}
	if flyapi.DigestOf(image) == "" {
		return report, fmt.Errorf("image %q has no digest: a rollout needs registry/repository@sha256:…, so that every machine gets the same content", image)
	}
	if err := sel.check(); err != nil {
		return report, err
	}
	list, err := r.source.OrgMachines(ctx)
	if err != nil {
		return report, fmt.Errorf("find the machines of fleet %s: %w", sel.Fleet, err)
	}
	rows := sel.pick(list.Rows)
	report.ErrorRegions = list.ErrorRegions
	if len(rows) == 0 {
		return report, sel.nothing(list)
	}
	report.Machines = r.swapAll(ctx, rows, sel, image)
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}

// swapAll gives one outcome per row, in the rows' order.
func (r *Runner) swapAll(ctx context.Context, rows []flyapi.MachineRow, sel Selection, image string) []swap.Outcome {
	out := make([]swap.Outcome, len(rows))
	turns := make(chan int)
	var workers sync.WaitGroup
	var progress sync.Mutex
	for range min(r.opt.Concurrency, len(rows)) {
		workers.Go(func() {
			for i := range turns {
				out[i] = r.swapOne(ctx, rows[i], sel, image)
				if r.opt.Progress != nil {
					progress.Lock()
					r.opt.Progress(out[i])
					progress.Unlock()
				}
			}
		})
	}
	for i := range rows {
		turns <- i
	}
	close(turns)
	workers.Wait()
	return out
}

func (r *Runner) swapOne(ctx context.Context, row flyapi.MachineRow, sel Selection, image string) swap.Outcome {
	if ctx.Err() != nil {
		return swap.Outcome{
			App: row.App, Machine: row.ID, Name: row.Name, Status: swap.Skipped, Code: swap.CodeNotStarted,
			Reason: fmt.Sprintf("the run ended before its turn: %v", context.Cause(ctx)), From: row.Image, To: image, StateBefore: row.State,
		}
	}
	t := r.opt.Target
	t.App, t.Machine, t.Image, t.Fleet = row.App, row.ID, image, sel.Fleet
	outcome, _ := r.engine.Swap(ctx, t) // the outcome says all that the error does
	return outcome
}
