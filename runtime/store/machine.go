package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Machine is a computer that sessions work on.
type Machine struct {
	ID  string
	App string
	// Tenant whose it is, for good; empty while it waits in a pool.
	Tenant  string
	Pool    string
	Address string
	Epoch   string
	Image   string
	// Retired ones are given to nobody any more.
	Retired bool
}

const machineRetired int16 = 2

func machineOf(row statement.Machine) Machine {
	return Machine{
		ID: row.ID, App: row.App, Tenant: orZero(row.TenantID), Pool: row.Pool, Address: row.Address, Epoch: row.Epoch, Image: row.Image,
		Retired: row.State == machineRetired,
	}
}

// PutMachine tells of a machine that was seen, with its number of slots. Tenant and retirement, once there, stay.
func (s *Store) PutMachine(ctx context.Context, m Machine, slots int) error {
	err := s.transaction(ctx, func(q *statement.Queries) error {
		arg := statement.PutMachineParams{ID: m.ID, App: m.App, Pool: m.Pool, Address: m.Address, Epoch: m.Epoch, Image: m.Image}
		if m.Tenant != "" {
			arg.TenantID = &m.Tenant
		}
		if err := q.PutMachine(ctx, arg); err != nil {
			return err
		}
		return q.PutSlots(ctx, statement.PutSlotsParams{MachineID: m.ID, Slots: int32(slots)})
	})
	if err != nil {
		return fmt.Errorf("store: machine %s: %w", m.ID, err)
	}
	return nil
}

// Machine gives a machine, or ErrNotFound.
func (s *Store) Machine(ctx context.Context, id string) (Machine, error) {
	row, err := found(ask(ctx, s.query.GetMachine, id))
	if err != nil {
		return Machine{}, fmt.Errorf("machine %s: %w", id, err)
	}
	return machineOf(row), nil
}

// TenantMachines lists the tenant's usable machines.
func (s *Store) TenantMachines(ctx context.Context, tenant string) ([]Machine, error) {
	rows, err := ask(ctx, s.query.TenantMachines, &tenant)
	if err != nil {
		return nil, fmt.Errorf("store: machines of tenant %s: %w", tenant, err)
	}
	return each(rows, machineOf), nil
}

// ClaimFromPool gives one of the pool's machines to a tenant, for good, or ErrNotFound. Two callers never get the same.
func (s *Store) ClaimFromPool(ctx context.Context, pool, tenant string) (Machine, error) {
	row, err := found(ask(ctx, s.query.ClaimFromPool, statement.ClaimFromPoolParams{TenantID: tenant, Pool: pool}))
	if err != nil {
		return Machine{}, fmt.Errorf("pool %s: %w", pool, err)
	}
	return machineOf(row), nil
}

// Retire lets a machine be given to nobody any more.
func (s *Store) Retire(ctx context.Context, id string) error {
	if err := tell(ctx, s.query.RetireMachine, id); err != nil {
		return fmt.Errorf("store: machine %s: %w", id, err)
	}
	return nil
}

// IdleMachines lists tenants' machines on which, for the given time, no session has had a slot and no command has run.
func (s *Store) IdleMachines(ctx context.Context, idle time.Duration, most int) ([]Machine, error) {
	rows, err := ask(ctx, s.query.IdleMachines, statement.IdleMachinesParams{IdleS: idle.Seconds(), Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: idle machines: %w", err)
	}
	return each(rows, machineOf), nil
}

// Held is the slot that a session has.
type Held struct {
	Machine string
	Slot    int
	// Fence of the claim that last started something there.
	Fence     int64
	ClaimedAt time.Time
}

// SlotOf gives the session's slot, if it has one.
func (s *Store) SlotOf(ctx context.Context, session uuid.UUID) (Held, bool, error) {
	row, err := ask(ctx, s.query.SessionSlot, session)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Held{}, false, nil
	case err != nil:
		return Held{}, false, fmt.Errorf("store: slot of session %s: %w", session, err)
	}
	return Held{Machine: row.MachineID, Slot: int(row.Slot), Fence: row.Fence, ClaimedAt: orZero(row.ClaimedAt)}, true, nil
}

// ReleaseSlot gives the session's slot back, for another machine or for others.
func (s *Store) ReleaseSlot(ctx context.Context, c Claim) error {
	err := s.transaction(ctx, func(q *statement.Queries) error {
		if err := q.Hold(ctx, statement.HoldParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence}); err != nil {
			return err
		}
		return q.FreeSlots(ctx, &c.Session)
	})
	if err != nil {
		return fmt.Errorf("store: release the slot of session %s: %w", c.Session, err)
	}
	return nil
}

// ReleaseIdleSlots gives back the slots of sessions that have had nothing to do for the given time; it says on how many machines.
func (s *Store) ReleaseIdleSlots(ctx context.Context, idle time.Duration) (int, error) {
	n, err := ask(ctx, s.query.ReleaseIdleSlots, idle.Seconds())
	if err != nil {
		return 0, fmt.Errorf("store: release idle slots: %w", err)
	}
	return int(n), nil
}
