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
	Tenant string
	// Pool in which it waits. With a Tenant it says that the claim is not finished: the machine itself may not know yet
	// (PutMachine without a Pool ends it).
	Pool    string
	Address string
	Epoch   string
	Image   string
	// Retired ones are given to nobody any more.
	Retired bool
	// Resting ones are being stopped or suspended: nothing may be started there (BeginRest).
	Resting bool
}

const (
	machineRetired int16 = 2
	machineResting int16 = 3
)

func machineOf(row statement.Machine) Machine {
	return Machine{
		ID: row.ID, App: row.App, Tenant: orZero(row.TenantID), Pool: row.Pool, Address: row.Address, Epoch: row.Epoch, Image: row.Image,
		Retired: row.State == machineRetired, Resting: row.State == machineResting,
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

// UseMachine is Machine for a session that is about to work there: of a rest that begins at the same moment, either it
// sees the session, which must run by now, or the session sees it.
func (s *Store) UseMachine(ctx context.Context, id string) (Machine, error) {
	row, err := found(ask(ctx, s.query.UseMachine, id))
	if err != nil {
		return Machine{}, fmt.Errorf("machine %s: %w", id, err)
	}
	return machineOf(row), nil
}

// TenantMachines lists the tenant's machines that are not retired.
func (s *Store) TenantMachines(ctx context.Context, tenant string) ([]Machine, error) {
	rows, err := ask(ctx, s.query.TenantMachines, &tenant)
	if err != nil {
		return nil, fmt.Errorf("store: machines of tenant %s: %w", tenant, err)
	}
	return each(rows, machineOf), nil
}

// FreeSlots counts a machine's slots that no session has.
func (s *Store) FreeSlots(ctx context.Context, id string) (int, error) {
	n, err := ask(ctx, s.query.FreeSlotCount, id)
	if err != nil {
		return 0, fmt.Errorf("store: slots of machine %s: %w", id, err)
	}
	return int(n), nil
}

// ClaimFromPool gives one of the pool's machines to a tenant, for good, or ErrNotFound. Two callers never get the same, and
// a tenant that has a machine by now gets that one.
func (s *Store) ClaimFromPool(ctx context.Context, pool, tenant string) (Machine, error) {
	var row statement.Machine
	err := s.transaction(ctx, func(q *statement.Queries) error {
		if err := q.LockTenant(ctx, tenant); err != nil {
			return err
		}
		has, err := q.TenantMachines(ctx, &tenant)
		if err != nil {
			return err
		}
		if len(has) > 0 {
			row = has[0]
			return nil
		}
		row, err = found(q.ClaimFromPool(ctx, statement.ClaimFromPoolParams{TenantID: tenant, Pool: pool}))
		return err
	})
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

// RetiredAmong gives those of the machines that are retired.
func (s *Store) RetiredAmong(ctx context.Context, ids []string) ([]string, error) {
	retired, err := ask(ctx, s.query.RetiredAmong, ids)
	if err != nil {
		return nil, fmt.Errorf("store: retired machines: %w", err)
	}
	return retired, nil
}

// IdleMachines lists tenants' machines on which no command runs and whose tenant has no session that is at work or was
// within the given time; sessions with a slot on another machine do not count. Ask again: BeginRest decides.
func (s *Store) IdleMachines(ctx context.Context, idle time.Duration, most int) ([]Machine, error) {
	rows, err := ask(ctx, s.query.IdleMachines, statement.IdleMachinesParams{IdleS: idle.Seconds(), Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: idle machines: %w", err)
	}
	return each(rows, machineOf), nil
}

// BeginRest marks a machine that is idle (IdleMachines) as resting, and says whether it did. From then on no session
// starts anything there until EndRest. Hold the platform's lease on the machine around both: then the mark of
// somebody who died may be taken away by who holds the lease next.
func (s *Store) BeginRest(ctx context.Context, id string, idle time.Duration) (bool, error) {
	began := false
	err := s.transaction(ctx, func(q *statement.Queries) error {
		// A statement of its own: the next one's snapshot is taken after the wait for the lock.
		if _, err := found(q.LockMachine(ctx, id)); err != nil {
			return err
		}
		n, err := q.BeginRest(ctx, statement.BeginRestParams{ID: id, IdleS: idle.Seconds()})
		began = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("store: rest of machine %s: %w", id, err)
	}
	return began, nil
}

// EndRest lets sessions use the machine again and starts its idle time anew, also when it was not resting.
func (s *Store) EndRest(ctx context.Context, id string) error {
	if err := tell(ctx, s.query.EndRest, id); err != nil {
		return fmt.Errorf("store: end of the rest of machine %s: %w", id, err)
	}
	return nil
}

// ExecSlot is a command with whose it is, and the slot under which it runs.
type ExecSlot struct {
	Tenant  string
	Session uuid.UUID
	Call    string
	State   ExecState
	// Machine of the command, and the slot that its session has there; none when Slot is 0.
	Machine   string
	Slot      int
	ClaimedAt time.Time
	// Slotted: the machine has slots at all.
	Slotted bool
}

// ExecSlot finds a command by its id alone, or gives ErrNotFound: for callers that prove otherwise whose it is.
func (s *Store) ExecSlot(ctx context.Context, exec uuid.UUID) (ExecSlot, error) {
	row, err := found(ask(ctx, s.query.ExecSlot, exec))
	if err != nil {
		return ExecSlot{}, fmt.Errorf("command %s: %w", exec, err)
	}
	return ExecSlot{
		Tenant: row.TenantID, Session: row.SessionID, Call: row.CallID, State: ExecState(row.State),
		Machine: row.MachineID, Slot: int(row.Slot), ClaimedAt: orZero(row.ClaimedAt), Slotted: row.Slotted,
	}, nil
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
