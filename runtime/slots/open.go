package slots

import (
	"context"
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
)

// soon is when a caller had better ask again.
const soon = time.Second

// ScopeOf is the scope of a session on machines.
func ScopeOf(claim store.Claim) string { return "s/" + claim.Session.String() }

// Open gives the place that the session has, or proposes one of its tenant's machines, or one of the pool. The machine has
// answered when it returns. What cannot be reached, decided or found now is an *sandbox.UnavailableError.
func (s *Slots) Open(ctx context.Context, claim store.Claim) (driver.Place, error) {
	held, has, err := s.store.SlotOf(ctx, claim.Session)
	if err != nil {
		return driver.Place{}, s.databaseFailed(ctx, err)
	}
	if has {
		place, err := s.enter(ctx, claim, held.Machine, true)
		if gone := new(goneError); !errors.As(err, &gone) {
			return place, err
		}
		s.log.WarnContext(ctx, "the session's machine is gone; its slot is given back", "session", claim.Session, "machine", held.Machine)
		if err := s.store.ReleaseSlot(ctx, claim); err != nil {
			return driver.Place{}, err
		}
	}
	id, err := s.choose(ctx, claim.Tenant)
	if err != nil {
		return driver.Place{}, err
	}
	place, err := s.enter(ctx, claim, id, false)
	if gone := new(goneError); errors.As(err, &gone) {
		return driver.Place{}, unavailable(0, nil, "machine %s is gone; another is looked for", id)
	}
	return place, err
}

// databaseFailed is an error of the store as a caller of Open has to take it: each is waited for, since none says anything of
// the session's machine.
func (s *Slots) databaseFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unavailable(soon, err, "the database")
}

// enter opens a machine for the session. It looks at the machine's row before anything else: the session runs by now, so from
// here on the machine is not sent to rest (package doc).
func (s *Slots) enter(ctx context.Context, claim store.Claim, id string, held bool) (driver.Place, error) {
	m, err := s.store.UseMachine(ctx, id)
	switch {
	case err != nil:
		return driver.Place{}, s.databaseFailed(ctx, err)
	case m.Tenant != claim.Tenant:
		return driver.Place{}, &ForeignError{Machine: id, Tenant: claim.Tenant}
	case m.Retired && !held:
		return driver.Place{}, unavailable(0, nil, "machine %s is retired; another is looked for", id)
	case m.Resting:
		if err := s.wake(ctx, m); err != nil {
			return driver.Place{}, err
		}
	}
	roads, done := s.roads.take(m.ID, m.Address)
	scope := ScopeOf(claim)
	as := client.Options{
		Address: m.Address, Road: roads.control, Scope: scope, Fence: uint64(claim.Fence), Log: s.log,
		Tokens: client.SignWith(s.options.Key, m.App, m.ID, claim.Session.String(), scope),
	}
	if err := s.greet(ctx, m, as); err != nil {
		done()
		return driver.Place{}, err
	}
	box, err := remote.New(remote.Options{Machine: as, Bulk: roads.bulk, Wait: s.options.Wait, Log: s.log}) //nolint:contextcheck // lives until Place.Close
	if err != nil {
		done()
		return driver.Place{}, err
	}
	return driver.Place{
		Box: box, Machine: m.ID, Slot: &store.Slot{Machine: m.ID},
		Close: func() {
			box.Close()
			done()
		},
	}, nil
}

// choose proposes a machine for a session without a slot.
func (s *Slots) choose(ctx context.Context, tenant string) (string, error) {
	list, listErr := s.directory.recent(ctx)
	if listErr == nil {
		if err := s.learn(ctx, list, tenant); err != nil {
			return "", s.databaseFailed(ctx, err)
		}
	}
	has, err := s.store.TenantMachines(ctx, tenant)
	if err != nil {
		return "", s.databaseFailed(ctx, err)
	}
	if len(has) == 0 {
		return s.claim(ctx, tenant)
	}
	return s.roomiest(ctx, tenant, has)
}

// roomiest takes the machine with the most free slots, and finishes its claim where that is open.
func (s *Slots) roomiest(ctx context.Context, tenant string, has []store.Machine) (string, error) {
	best, most := store.Machine{}, 0
	for _, m := range has {
		free, err := s.store.FreeSlots(ctx, m.ID)
		if err != nil {
			return "", s.databaseFailed(ctx, err)
		}
		if free > most {
			best, most = m, free
		}
	}
	switch {
	case most == 0:
		return "", unavailable(soon, nil, "every slot of the tenant's machine is in use")
	case best.Pool != "":
		return best.ID, s.finish(ctx, best, tenant)
	}
	return best.ID, nil
}

// learn tells the database what a list says of a tenant's machines. What a list lacks may be late: it tells nothing.
func (s *Slots) learn(ctx context.Context, list flyapi.MachineList, tenant string) error {
	for _, r := range owned(list, s.options.Fleet, tenant, "", ours) {
		if err := s.put(ctx, list, r); err != nil {
			return err
		}
	}
	has, err := s.store.TenantMachines(ctx, tenant)
	if err != nil {
		return err
	}
	for _, m := range has {
		r, there := find(list, m.ID)
		if !there {
			continue
		}
		if err := s.reconcile(ctx, r, m); err != nil {
			return err
		}
	}
	return nil
}

// reconcile compares a tenant's machine with what its metadata say. A claim that they do not show is open again. Metadata that
// name somebody else end the use of the machine, but never on a list's word alone.
func (s *Slots) reconcile(ctx context.Context, r flyapi.MachineRow, m store.Machine) error {
	pool := r.Metadata[metadataPool]
	switch ownerOf(r.Metadata, s.options.Fleet, m.Tenant, pool) {
	case ours:
		return nil
	case waiting:
		if m.Pool == pool {
			return nil
		}
		m.Pool = pool
		return s.store.PutMachine(ctx, m, s.options.PerMachine)
	case others, withdrawn, elsewhere:
	}
	live, err := s.api.GetMachine(ctx, m.App, m.ID)
	if err != nil || live.IncompleteConfig || !live.Reachable() {
		return nil //nolint:nilerr // what cannot be asked is not judged
	}
	if is := ownerOf(live.Metadata(), s.options.Fleet, m.Tenant, pool); is == ours || is == waiting {
		return nil
	}
	s.log.ErrorContext(ctx, "a machine is not its tenant's any more by its metadata; it is used no more", "machine", m.ID, "app", m.App, "tenant", m.Tenant)
	return s.store.Retire(ctx, m.ID)
}

// put brings a machine's row up to date, with a write only where something differs.
func (s *Slots) put(ctx context.Context, list flyapi.MachineList, r flyapi.MachineRow) error {
	before, err := s.store.Machine(ctx, r.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	now := known(list, r, before)
	same := now
	same.Retired, same.Resting = before.Retired, before.Resting
	if err == nil && same == before {
		return nil
	}
	return s.store.PutMachine(ctx, now, s.options.PerMachine)
}
