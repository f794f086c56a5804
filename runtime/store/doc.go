// Package store keeps what the runtime knows, in Postgres: sessions, submissions, the journal, and the rows that
// decide whether something may happen: effects, approvals, execs, slots.
//
// # Who may write
//
// A session has one owner at a time, elected by Claim, which raises the session's fence by one. Every write of an
// owner names owner and fence, and its own statement checks both while it holds the session's row under FOR SHARE.
// So a takeover, which updates that row, waits for writes under way, and no write of the old owner comes after it:
//
//	owner A   append (row FOR SHARE) ───commit
//	owner B            claim (UPDATE row) ......waits...... fence + 1 ── reads the journal
//	owner A                                                                 append: 0 rows, ErrFenced
//
// # A session
//
//	          Submit, Decide, Cancel, expiry                 Claim
//	idle ───────────────────────────────────────► ready ─────────────────► running
//	  ▲                                             ▲ ▲                      │ │ │
//	  │                                             │ └─────── Release ──────┘ │ │
//	  │                                          parked ◄── Park, turn waits ──┘ │
//	  └────────────────────────── Park, nothing to do ───────────────────────────┘
//
// A running session whose owner has not beaten for the TTL, by the database's clock, is claimed as a ready one is; that
// claim counts an attempt. Parked and idle sessions hold nothing but their row.
//
// # Locks
//
// Every transaction that changes rows under a session locks the session's row first, so that no two wait for each
// other in a circle. What has to be seen after waiting for that lock is read in a later statement, whose snapshot is newer.
//
// # Time
//
// Only the database's clock decides: expiry, beats, deadlines, back-off. Callers pass durations, never points in
// time. The one local clock bounds how long a replica trusts itself after its last beat (Executor.Trusted).
package store
