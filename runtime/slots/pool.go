package slots

import (
	"context"
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const (
	// mostOffered bounds how many waiting machines a claim tells the database of.
	mostOffered = 64
	// mostTries bounds how many machines one claim may use up.
	mostTries = 3
	// retireTime bounds the write that retires a machine, also when its caller has gone.
	retireTime = 15 * time.Second
)

// errUsedUp says that a machine was retired by a claim that failed.
var errUsedUp = errors.New("the claim failed and has retired the machine")

// claim gets a machine of the pool for a tenant that has none. It looks at a list of this moment first: a machine is given
// for good, so a tenant whose own one was made a second ago must not get another.
func (s *Slots) claim(ctx context.Context, tenant string) (string, error) {
	list, err := s.directory.fresh(ctx)
	if err != nil {
		return "", unavailable(soon, err, "the tenant has no machine that is known")
	}
	if err := s.learn(ctx, list, tenant); err != nil {
		return "", s.databaseFailed(ctx, err)
	}
	has, err := s.store.TenantMachines(ctx, tenant)
	switch {
	case err != nil:
		return "", s.databaseFailed(ctx, err)
	case len(has) > 0:
		return s.roomiest(ctx, tenant, has)
	case len(list.ErrorRegions) > 0:
		return "", unavailable(5*time.Second, nil, "machines of %v are not listed, and the tenant's may be among them", list.ErrorRegions)
	case s.options.Pool == "":
		return "", &NoMachineError{Tenant: tenant, Fleet: s.options.Fleet}
	}
	if err := s.offer(ctx, list); err != nil {
		return "", s.databaseFailed(ctx, err)
	}
	for range mostTries {
		m, err := s.store.ClaimFromPool(ctx, s.options.Pool, tenant)
		if errors.Is(err, store.ErrNotFound) {
			return "", unavailable(10*time.Second, nil, "the pool %s has no machine left", s.options.Pool)
		}
		if err != nil {
			return "", s.databaseFailed(ctx, err)
		}
		if m.Pool == "" { // another session of the tenant was faster, and is done
			return m.ID, nil
		}
		if err = s.finish(ctx, m, tenant); !errors.Is(err, errUsedUp) {
			return m.ID, err
		}
	}
	return "", unavailable(10*time.Second, nil, "%d machines of the pool %s could not be claimed", mostTries, s.options.Pool)
}

// offer tells the database of machines that wait in the pool.
func (s *Slots) offer(ctx context.Context, list flyapi.MachineList) error {
	offered := 0
	for _, r := range owned(list, s.options.Fleet, "", s.options.Pool, waiting) {
		if offered == mostOffered {
			break
		}
		if r.HostStatus != "" && r.HostStatus != flyapi.HostOK {
			continue
		}
		before, err := s.store.Machine(ctx, r.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if before.Retired || before.Tenant != "" {
			continue
		}
		if err := s.put(ctx, list, r); err != nil {
			return err
		}
		offered++
	}
	return nil
}

// finish makes a claim that the database has decided known on the machine, under its lease. errUsedUp: it failed after
// its first write, or was not the tenant's to have. Any other error: nothing was written, and the claim may go on later.
func (s *Slots) finish(ctx context.Context, m store.Machine, tenant string) error {
	err := s.api.WithLease(ctx, m.App, m.ID, func(ctx context.Context, _ flyapi.Lease) error {
		// Under the lease: another session of the tenant may have failed with it meanwhile.
		row, err := s.store.Machine(ctx, m.ID)
		if err != nil {
			return err
		}
		if row.Retired {
			return errUsedUp
		}
		is, err := s.look(ctx, m, tenant)
		switch {
		case err != nil:
			return err
		case is == waiting:
			err = s.write(ctx, m, tenant)
		case is != ours:
			s.log.ErrorContext(ctx, "a machine of the pool is another's by its metadata", "machine", m.ID, "app", m.App)
			err = s.retire(ctx, m, false)
		}
		if err != nil {
			return err
		}
		m.Tenant, m.Pool = tenant, ""
		return s.store.PutMachine(ctx, m, s.options.PerMachine)
	})
	switch {
	case err == nil:
		s.directory.forget()
		s.log.InfoContext(ctx, "a machine of the pool belongs to a tenant now", "machine", m.ID, "app", m.App, "tenant", tenant)
		return nil
	case errors.Is(err, errUsedUp):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return unavailable(soon, err, "machine %s of the pool is not claimed yet", m.ID)
}

// look reads whose the machine is now. One that is gone is retired.
func (s *Slots) look(ctx context.Context, m store.Machine, tenant string) (owner, error) {
	live, err := s.api.GetMachine(ctx, m.App, m.ID)
	switch {
	case flyapi.IsNotFound(err) || err == nil && live.Gone():
		return elsewhere, s.retire(ctx, m, false)
	case err != nil:
		return elsewhere, err
	case !live.Reachable() || live.IncompleteConfig:
		return elsewhere, errors.New("its host is " + live.HostStatus)
	}
	return ownerOf(live.Metadata(), s.options.Fleet, tenant, m.Pool), nil
}

// write is the first write of a claim, and the look whether it holds.
func (s *Slots) write(ctx context.Context, m store.Machine, tenant string) error {
	err := s.api.SetMetadata(ctx, m.App, m.ID, metadataTenant, tenant)
	if err != nil && !flyapi.Unsure(err) {
		return err // refused: nothing was written
	}
	is := elsewhere
	if err == nil {
		is, err = s.look(ctx, m, tenant)
	}
	if err == nil && is == ours {
		return nil
	}
	s.log.ErrorContext(ctx, "the claim of a machine of the pool failed after its first write", "machine", m.ID, "app", m.App, "tenant", tenant, "error", err)
	return s.retire(ctx, m, true)
}

// retire takes a machine out of use for good: in the database, and with mark on the machine itself. It also works for a caller
// who has gone. A mark that fails is set by a later pass (remark).
func (s *Slots) retire(ctx context.Context, m store.Machine, mark bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retireTime)
	defer cancel()
	if err := s.store.Retire(ctx, m.ID); err != nil {
		return err
	}
	if mark {
		if err := s.api.SetMetadata(ctx, m.App, m.ID, metadataPoolState, poolRetired); err != nil {
			s.log.WarnContext(ctx, "a retired machine is not marked yet", "machine", m.ID, "app", m.App, "error", err)
		}
	}
	return errUsedUp
}

// remark marks machines that a failed claim has retired and that do not say so yet: their tenant is the one that has used them
// up, or none.
func (s *Slots) remark(ctx context.Context, list flyapi.MachineList) error {
	if s.options.Pool == "" {
		return nil
	}
	var ids []string
	for _, r := range list.Rows {
		if !r.Gone() && r.Metadata[metadataFleet] == s.options.Fleet && r.Metadata[metadataPool] != "" && r.Metadata[metadataPoolState] == "" {
			ids = append(ids, r.ID)
		}
	}
	retired, err := s.store.RetiredAmong(ctx, ids)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range retired {
		m, err := s.store.Machine(ctx, id)
		if err != nil {
			return err
		}
		r, _ := find(list, id)
		if tenant := r.Metadata[metadataTenant]; tenant != "" && tenant != m.Tenant || m.Pool == "" {
			continue
		}
		failed = append(failed, s.api.SetMetadata(ctx, m.App, m.ID, metadataPoolState, poolRetired))
	}
	return errors.Join(failed...)
}
