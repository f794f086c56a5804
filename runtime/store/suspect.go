package store

import (
	"context"
	"math"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// A process dies with all its sessions, and nobody can say which of them killed it, so its death counts for each. That none is
// given up for what another one did, sessions over which owners die again and again have fewer and fewer of their kind
// beside them, and for its last attempt each has a process to itself: who dies alone has killed.

// AloneAfter is after how many deaths of its owners a session is the only one that its next owner works on (Claim.Alone).
const AloneAfter = 4

// suspects says how many sessions over which so many owners died an executor holds at most. ClaimReady and ClaimDead claim those
// that have had fewer deaths than all of these.
var suspects = []struct{ deaths, room int }{{AloneAfter, 1}, {3, 4}, {2, 16}}

// Alone says that the session is to be the only one in the process while it is tried: what dies over it now is its own doing.
func (c Claim) Alone() bool { return c.Attempts >= AloneAfter }

// Alone says that the executor holds a session that is to be alone.
func (e *Executor) Alone() bool { return e.suspects(AloneAfter) > 0 }

// suspects counts the sessions held over which at least so many owners have died.
func (e *Executor) suspects(deaths int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, held := range e.held {
		if held.attempts >= deaths {
			n++
		}
	}
	return n
}

// claimSuspects claims those that there is room for. With one that is to be alone, nothing else is to be claimed.
func (s *Store) claimSuspects(ctx context.Context, q *statement.Queries, e *Executor, most int, judges bool) (claims []Claim, alone bool, err error) {
	if s.options.TenantCap > 0 {
		if err := q.OneClaimAtATime(ctx); err != nil {
			return nil, false, err
		}
	}
	var shift statement.ShiftDeadlinesParams
	upto := math.MaxInt32
	for _, class := range suspects {
		room := min(class.room-e.suspects(class.deaths), most) - len(claims)
		if s.options.TenantCap > 0 {
			room = min(room, 1) // the statement counts what runs before it
		}
		if room > 0 {
			rows, err := q.ClaimSuspects(ctx, statement.ClaimSuspectsParams{
				Owner: e.ID, Judges: judges, TtlS: s.options.TTL.Seconds(), Least: int32(class.deaths), Upto: int32(upto),
				Cap: int64(s.options.TenantCap), Most: int32(room),
			})
			if err != nil {
				return nil, false, err
			}
			for _, r := range rows {
				claim := newClaim(r.ID, r.TenantID, r.Agent, r.Fence)
				claim.TookOver = r.Died
				claims = append(claims, claim)
				if r.ParkedS > 0 {
					shift.Sessions, shift.Secs = append(shift.Sessions, r.ID), append(shift.Secs, r.ParkedS)
				}
			}
			if alone = class.deaths == AloneAfter && len(rows) > 0; alone {
				break
			}
		}
		upto = class.deaths - 1
	}
	if len(shift.Sessions) > 0 {
		err = q.ShiftDeadlines(ctx, shift)
	}
	return claims, alone, err
}

// busyRoom is the most deaths that a session may have seen which the executor could hold besides what it has.
func (e *Executor) busyRoom() int {
	upto := suspects[len(suspects)-1].deaths - 1
	for i := len(suspects) - 1; i >= 0 && e.suspects(suspects[i].deaths) < suspects[i].room; i-- {
		upto = math.MaxInt32
		if i > 0 {
			upto = suspects[i-1].deaths - 1
		}
	}
	return upto
}
