package store

import (
	"context"
	"errors"
	"fmt"
	"math"
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

	now  func() time.Time
	ttl  time.Duration
	beat atomic.Pointer[time.Time]
	// judgesFrom is when it may say again that others are dead.
	judgesFrom atomic.Pointer[time.Time]
	// postponed is when that was put off last.
	postponed atomic.Pointer[time.Time]

	// claiming makes claims one after the other, so that held is complete when one looks at it.
	claiming sync.Mutex
	mu       sync.Mutex
	// held are the sessions that were claimed and neither parked, released nor lost.
	held map[uuid.UUID]held
	// unsure says that a claim's answer was lost: the database may have sessions as this executor's that nobody works on.
	unsure bool
}

type held struct {
	fence    int64
	attempts int
}

func (e *Executor) hold(claims ...Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range claims {
		e.held[c.Session] = held{c.Fence, c.Attempts}
	}
}

// goesOn takes note of the claim's next submission.
func (e *Executor) goesOn(c Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[c.Session].fence == c.Fence {
		e.held[c.Session] = held{c.Fence, c.Attempts}
	}
}

// drop forgets a claim that has ended.
func (e *Executor) drop(c Claim) {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held[c.Session].fence == c.Fence {
		delete(e.held, c.Session)
	}
}

// holds says whether somebody in this process works on that claim.
func (e *Executor) holds(session uuid.UUID, fence int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	held, there := e.held[session]
	return there && held.fence == fence
}

// dropIfFenced forgets a claim whose session has another owner.
func (c Claim) dropIfFenced(err error) {
	if errors.Is(err, ErrFenced) {
		c.executor.drop(c)
	}
}

// Trusted says whether the last beat that the database took began less than four fifths of the TTL ago. After that
// somebody else may own what this replica thinks it owns: it must start nothing.
func (e *Executor) Trusted() bool { return e.silent(e.now()) < e.ttl*4/5 }

// silent is how long ago the last beat that the database took began. The monotonic clock, which may stand still while a
// computer sleeps, and the wall clock, which may be set, must both agree that it is not long.
func (e *Executor) silent(now time.Time) time.Duration {
	last := *e.beat.Load()
	if last.IsZero() {
		return math.MaxInt64
	}
	return max(now.Sub(last), now.Round(0).Sub(last.Round(0)))
}

// judges says whether the executor may take others for dead that have not beaten for the TTL. Where it could not beat itself for
// about as long (outage), it may have been the database that was away: then those who live have a TTL to say so. ClaimDead has
// the same for the time before its next beat.
func (e *Executor) judges() bool { return !e.now().Before(*e.judgesFrom.Load()) }

// outage is how long an executor cannot beat before it thinks that others cannot either. The beats of two that live are a fifth
// of the TTL apart at most, so that after four fifths one may be dead for the other; a fifth is for a slow one.
func (e *Executor) outage() time.Duration { return e.ttl * 3 / 5 }

// Register makes an executor, with its first beat.
func (s *Store) Register(ctx context.Context, address, version string) (*Executor, error) {
	e := &Executor{ID: NewID(), Address: address, Version: version, now: s.options.Now, ttl: s.options.TTL, held: map[uuid.UUID]held{}}
	e.beat.Store(&time.Time{})
	e.judgesFrom.Store(&time.Time{})
	e.postponed.Store(&time.Time{})
	return e, s.Beat(ctx, e)
}

// Beat says that the executor lives: one row, whatever the number of its sessions. Call it every fifth of the TTL.
func (s *Store) Beat(ctx context.Context, e *Executor) error {
	var begin time.Time
	lapsed := false
	err := tell(ctx, func(ctx context.Context, beat statement.BeatParams) error {
		begin = e.now()
		if lapsed = e.lapsed(begin); lapsed {
			// Before the database knows of the beat, since from then on a claim is possible.
			e.judgeLater()
		}
		// By the connections of the writers, who hold each for a statement only: a thousand sessions may wait for the others.
		return statement.New(s.writing).Beat(ctx, beat)
	}, statement.BeatParams{ID: e.ID, Address: e.Address, Version: e.Version})
	if err != nil {
		return fmt.Errorf("store: beat: %w", err)
	}
	if now := e.now(); lapsed || e.lapsed(now) {
		e.judgeLater()
		e.postponed.Store(&now)
	}
	e.beat.Store(&begin)
	return nil
}

// lapsed says whether there was an outage. Where every beat takes so long, it must judge now and then all the same.
func (e *Executor) lapsed(now time.Time) bool {
	return !e.beat.Load().IsZero() && e.silent(now) >= e.outage() && now.Sub(*e.postponed.Load()) >= 2*e.ttl
}

func (e *Executor) judgeLater() {
	from := e.now().Add(e.ttl)
	e.judgesFrom.Store(&from)
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
