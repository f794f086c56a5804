package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Claim is the right to write to a session, until somebody else claims it. It ends by Park, Release or ErrFenced; one that
// is dropped without them stays this executor's for as long as it beats.
type Claim struct {
	Session uuid.UUID
	Tenant  string
	Agent   string
	// Fence of this claim: higher than any before.
	Fence int64
	// Executor that owns the session.
	Executor uuid.UUID
	// TookOver says that the owner before died in the middle of something.
	TookOver bool
	// Submission to work on, as it was at the claim; nil when there is none. When the claim has settled it, Begin
	// gives the next.
	Submission *Submission
	// Attempts is how many owners died over the submission, this takeover counted. How many are too many is for the caller to say.
	Attempts int

	executor *Executor
	tip      *tip
}

func newClaim(session uuid.UUID, tenant, agent string, fence int64) Claim {
	return Claim{Session: session, Tenant: tenant, Agent: agent, Fence: fence, tip: new(tip)}
}

func (c Claim) tookOver() Claim {
	c.TookOver = true
	return c
}

// Trusted is the executor's Trusted.
func (c Claim) Trusted() bool { return c.executor != nil && c.executor.Trusted() }

// Claim makes the executor the owner of at most most sessions that are ready, or whose owner is dead, and those of an earlier
// claim whose answer was lost, and begins their oldest submission. It gives none when there is nothing to do, or others were
// faster: look again by Notifier. A session over which owners died again and again comes when there is room for one of its
// kind; one that is Alone comes by itself. ErrLapsed: Beat first.
func (s *Store) Claim(ctx context.Context, e *Executor, most int) ([]Claim, error) {
	if most <= 0 {
		return nil, nil
	}
	e.claiming.Lock()
	defer e.claiming.Unlock()
	claims, err := s.claimOnce(ctx, e, most)
	if err != nil {
		return nil, fmt.Errorf("store: claim: %w", err)
	}
	e.hold(claims...)
	if len(claims) < most && !slices.ContainsFunc(claims, Claim.Alone) {
		stuck, err := s.claimBusyDead(ctx, e)
		if err != nil {
			s.options.Log.WarnContext(ctx, "a dead owner's session could not be claimed", "error", err)
		}
		e.hold(stuck...)
		claims = append(claims, stuck...)
	}
	if len(claims) > 0 {
		crashpoint.Hit("claim.after")
	}
	return claims, nil
}

// claimOnce claims, after taking back what an earlier claim got whose answer was lost: this executor goes on beating, so
// nobody else would.
func (s *Store) claimOnce(ctx context.Context, e *Executor, most int) (claims []Claim, err error) {
	err = s.once(ctx, func(q *statement.Queries) (err error) {
		claims = nil
		if e.unsure {
			if claims, err = s.reclaim(ctx, q, e); err != nil {
				return err
			}
		}
		more, err := s.claim(ctx, q, e, most)
		claims = append(claims, more...)
		return err
	})
	if err != nil {
		e.unsure = e.unsure || !certain(err)
		return nil, err
	}
	e.unsure = false
	return claims, nil
}

// reclaim gives the sessions that are the executor's and that nobody in this process works on.
func (s *Store) reclaim(ctx context.Context, q *statement.Queries, e *Executor) ([]Claim, error) {
	rows, err := q.OwnSessions(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	var claims []Claim
	for _, own := range rows {
		if e.holds(own.ID, own.Fence) {
			continue
		}
		again, err := q.ClaimBusyDead(ctx, statement.ClaimBusyDeadParams{Owner: e.ID, ID: own.ID, Fence: own.Fence})
		if err != nil {
			return nil, err
		}
		for _, r := range again {
			claims = append(claims, newClaim(r.ID, r.TenantID, r.Agent, r.Fence))
		}
	}
	return s.begin(ctx, q, e, claims)
}

func (s *Store) claim(ctx context.Context, q *statement.Queries, e *Executor, most int) ([]Claim, error) {
	// What a dead executor claimed would be taken from it at once, as an attempt that never was.
	now, err := q.Lives(ctx, statement.LivesParams{ID: e.ID, TtlS: s.options.TTL.Seconds()})
	if err != nil || !now.Lives {
		return nil, errors.Join(err, lapsed(now.Lives))
	}
	// Asked after the database has said that it knows of a beat: see Beat.
	judges := e.judges()
	var claims []Claim
	if now.Suspects {
		var alone bool
		if claims, alone, err = s.claimSuspects(ctx, q, e, most, judges); err != nil {
			return nil, err
		}
		if most -= len(claims); alone {
			most = 0
		}
	}
	if judges && most > 0 {
		dead, err := q.ClaimDead(ctx, statement.ClaimDeadParams{Owner: e.ID, TtlS: s.options.TTL.Seconds(), Most: int32(most)})
		if err != nil {
			return nil, err
		}
		for _, r := range dead {
			claims = append(claims, newClaim(r.ID, r.TenantID, r.Agent, r.Fence).tookOver())
		}
		most -= len(dead)
	}
	if !e.judges() && slices.ContainsFunc(claims, func(c Claim) bool { return c.TookOver }) {
		return nil, ErrLapsed // there was an outage between two statements
	}
	if most > 0 {
		ready, err := s.claimReady(ctx, q, e, most)
		if err != nil {
			return nil, err
		}
		claims = append(claims, ready...)
	}
	return s.begin(ctx, q, e, claims)
}

func lapsed(lives bool) error {
	if lives {
		return nil
	}
	return ErrLapsed
}

func (s *Store) claimReady(ctx context.Context, q *statement.Queries, e *Executor, most int) ([]Claim, error) {
	var rows []statement.ClaimReadyRow
	var err error
	if s.options.TenantCap == 0 {
		rows, err = q.ClaimReady(ctx, statement.ClaimReadyParams{Owner: e.ID, Most: int32(most)})
	} else {
		if err := q.OneClaimAtATime(ctx); err != nil {
			return nil, err
		}
		var capped []statement.ClaimReadyCappedRow
		capped, err = q.ClaimReadyCapped(ctx, statement.ClaimReadyCappedParams{Owner: e.ID, Cap: int64(s.options.TenantCap), Most: int32(most)})
		rows = each(capped, func(r statement.ClaimReadyCappedRow) statement.ClaimReadyRow { return statement.ClaimReadyRow(r) })
	}
	if err != nil {
		return nil, err
	}
	var claims []Claim
	var shift statement.ShiftDeadlinesParams
	for _, r := range rows {
		claims = append(claims, newClaim(r.ID, r.TenantID, r.Agent, r.Fence))
		if r.ParkedS > 0 {
			shift.Sessions, shift.Secs = append(shift.Sessions, r.ID), append(shift.Secs, r.ParkedS)
		}
	}
	if len(shift.Sessions) == 0 {
		return claims, nil
	}
	return claims, q.ShiftDeadlines(ctx, shift)
}

// begin counts attempts, begins submissions and completes the claims, whose rows the transaction has locked.
func (s *Store) begin(ctx context.Context, q *statement.Queries, e *Executor, claims []Claim) ([]Claim, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	var all, taken []uuid.UUID
	for _, c := range claims {
		all = append(all, c.Session)
		if c.TookOver {
			taken = append(taken, c.Session)
		}
	}
	if len(taken) > 0 {
		if err := q.CountAttempts(ctx, taken); err != nil {
			return nil, err
		}
	}
	if err := q.BeginSubmissions(ctx, all); err != nil {
		return nil, err
	}
	rows, err := q.RunningSubmissions(ctx, all)
	if err != nil {
		return nil, err
	}
	running := make(map[uuid.UUID]*Submission, len(rows))
	for _, r := range rows {
		u := submissionOf(r.Submission, r.RemainingMs)
		running[u.Session] = &u
	}
	for i := range claims {
		c := &claims[i]
		c.Executor, c.executor = e.ID, e
		c.attach(running[c.Session])
	}
	return claims, nil
}

func (c *Claim) attach(u *Submission) {
	c.Submission, c.Attempts = u, 0
	if u != nil {
		c.Attempts = u.Attempts
	}
}

// claimBusyDead takes one session whose dead owner holds its row whenever SKIP LOCKED looks.
func (s *Store) claimBusyDead(ctx context.Context, e *Executor) ([]Claim, error) {
	left, err := ask(ctx, s.query.DeadLeft, statement.DeadLeftParams{Owner: e.ID, TtlS: s.options.TTL.Seconds(), Upto: int32(e.busyRoom())})
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return nil, err
	}
	var claims []Claim
	err = s.once(ctx, func(q *statement.Queries) error {
		claims = nil
		// Only now: the question may have waited for the database's return.
		if !e.judges() {
			return nil
		}
		rows, err := q.ClaimBusyDead(ctx, statement.ClaimBusyDeadParams{Owner: e.ID, ID: left.ID, Fence: left.Fence})
		if err != nil {
			return err
		}
		for _, r := range rows {
			claims = append(claims, newClaim(r.ID, r.TenantID, r.Agent, r.Fence).tookOver())
		}
		claims, err = s.begin(ctx, q, e, claims)
		return err
	})
	if err != nil {
		e.unsure = e.unsure || !certain(err)
		return nil, err
	}
	return claims, nil
}

// Begin gives the claim's submission: the one under way, or else the oldest queued one, begun now. Submission is nil
// when there is none; then Park.
func (s *Store) Begin(ctx context.Context, c Claim) (Claim, error) {
	err := s.transaction(ctx, func(q *statement.Queries) error {
		if err := q.Hold(ctx, statement.HoldParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence}); err != nil {
			return err
		}
		begun, err := s.begin(ctx, q, c.executor, []Claim{{Session: c.Session}})
		if err == nil {
			c.attach(begun[0].Submission)
		}
		return err
	})
	if err != nil {
		c.dropIfFenced(err)
		return c, fmt.Errorf("store: begin: %w", err)
	}
	c.executor.goesOn(c)
	return c, nil
}

// owned is ErrFenced when the claim is not the session's owner any more. It decides nothing that is written: writes check
// for themselves.
func (s *Store) owned(ctx context.Context, c Claim) error {
	owned, err := ask(ctx, s.query.Owned, statement.OwnedParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if !owned {
		c.executor.drop(c)
		return ErrFenced
	}
	return nil
}
