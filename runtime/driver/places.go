package driver

import (
	"context"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// places opens the session's place when it is first needed, and again when that is no use.
type places struct {
	machines Machines
	claim    store.Claim
	// turn is held by who opens; place is nil before.
	turn  chan struct{}
	place *Place
	old   []Place
	// delivered are the submissions whose files are on the place.
	delivered map[uuid.UUID]bool
}

func newPlaces(machines Machines, claim store.Claim) *places {
	return &places{machines: machines, claim: claim, turn: make(chan struct{}, 1), delivered: map[uuid.UUID]bool{}}
}

// open gives the place. One that could not be reached is asked for again: the session may have another by now.
func (p *places) open(ctx context.Context, unreachable *Place) (*Place, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	if p.place != nil && p.place != unreachable {
		return p.place, nil
	}
	place, err := p.machines.Open(ctx, p.claim)
	if err != nil {
		return nil, err
	}
	if crashpoint.On {
		place.Box = crashing{place.Box}
	}
	if p.place != nil {
		// Others may be at work with it until the session ends.
		p.old = append(p.old, *p.place)
		clear(p.delivered)
	}
	p.place = &place
	return p.place, nil
}

func (p *places) lock(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *places) unlock() { <-p.turn }

// once delivers a submission's files, unless that was done; others wait for it.
func (p *places) once(ctx context.Context, submission uuid.UUID, deliver func() error) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	if p.delivered[submission] {
		return nil
	}
	if err := deliver(); err != nil {
		return err
	}
	p.delivered[submission] = true
	return nil
}

// close is called when nobody uses a place any more.
func (p *places) close() {
	if p.place != nil {
		p.old = append(p.old, *p.place)
	}
	for _, place := range p.old {
		if place.Close != nil {
			place.Close()
		}
	}
}

// crashing is a sandbox around whose starts a process can be killed.
type crashing struct{ sandbox.Sandbox }

// Start is Sandbox's.
func (c crashing) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	crashpoint.Hit("exec.start.before")
	process, err := c.Sandbox.Start(ctx, command)
	crashpoint.Hit("exec.start.after")
	return process, err
}
