package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Executor is one life of a replica that runs turns. Its id is fresh for each process, so that a restarted replica
// never finds itself the owner of what it did before.
type Executor struct {
	ID      uuid.UUID
	Address string
	Version string

	now   func() time.Time
	trust time.Duration
	beat  atomic.Pointer[time.Time]

	// claiming makes claims one after the other, so that held is complete when one looks at it.
	claiming sync.Mutex
	mu       sync.Mutex
	// held are the fences of the sessions that were claimed and neither parked, released nor lost.
	held map[uuid.UUID]int64
	// unsure says that a claim's answer was lost: the database may have sessions as this executor's that nobody works on.
	unsure bool
}

func (e *Executor) hold(c Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[c.Session] = c.Fence
}

// drop forgets a claim that has ended.
func (e *Executor) drop(c Claim) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[c.Session] == c.Fence {
		delete(e.held, c.Session)
	}
}

// holds says whether somebody in this process works on that claim.
func (e *Executor) holds(session uuid.UUID, fence int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, there := e.held[session]
	return there && held == fence
}

// dropIfFenced forgets a claim whose session has another owner.
func (c Claim) dropIfFenced(err error) {
	if errors.Is(err, ErrFenced) {
		c.executor.drop(c)
	}
}

// Trusted says whether the last beat that the database took began less than four fifths of the TTL ago. After that
// somebody else may own what this replica thinks it owns: it must start nothing. The monotonic clock, which may stand
// still while a computer sleeps, and the wall clock, which may be set, must both agree.
func (e *Executor) Trusted() bool {
	last, now := *e.beat.Load(), e.now()
	if last.IsZero() {
		return false
	}
	wall := now.Round(0).Sub(last.Round(0))
	return now.Sub(last) < e.trust && wall < e.trust
}

// Register makes an executor, with its first beat.
func (s *Store) Register(ctx context.Context, address, version string) (*Executor, error) {
	e := &Executor{ID: NewID(), Address: address, Version: version, now: s.options.Now, trust: s.options.TTL * 4 / 5, held: map[uuid.UUID]int64{}}
	e.beat.Store(&time.Time{})
	return e, s.Beat(ctx, e)
}

// Beat says that the executor lives: one row, whatever the number of its sessions. Call it every fifth of the TTL.
func (s *Store) Beat(ctx context.Context, e *Executor) error {
	begin := e.now()
	if err := tell(ctx, s.query.Beat, statement.BeatParams{ID: e.ID, Address: e.Address, Version: e.Version}); err != nil {
		return fmt.Errorf("store: beat: %w", err)
	}
	e.beat.Store(&begin)
	return nil
}

// Replica is an executor's row.
type Replica struct {
	ID        uuid.UUID
	Address   string
	Version   string
	StartedAt time.Time
	BeatAt    time.Time
	// Dead says that its sessions are being claimed by others.
	Dead bool
}

// Replicas lists the executors of the last day.
func (s *Store) Replicas(ctx context.Context) ([]Replica, error) {
	rows, err := ask(ctx, s.query.ListExecutors, s.options.TTL.Seconds())
	if err != nil {
		return nil, fmt.Errorf("store: replicas: %w", err)
	}
	return each(rows, func(r statement.ListExecutorsRow) Replica { return Replica(r) }), nil
}
