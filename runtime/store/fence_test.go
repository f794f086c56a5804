package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// nearai/ironclaw#7471: workers steal sessions from each other as fast as they can, each reads the journal and
// appends until it is fenced. With FOR KEY SHARE, or no lock, an old owner's append is committed after the new owner has read:
// both use one seq.
func TestFenceStorm(t *testing.T) {
	const workers, sessions = 24, 8
	takeovers := int64(600)
	if os.Getenv("FLYFLEET_TEST_LONG") != "" {
		takeovers = 20_000
	}
	db := fresh(t)
	var targets []uuid.UUID
	s := db.open(t, store.Options{Conns: 12})
	for range sessions {
		targets = append(targets, begin(t, s).claim.Session)
	}
	var stolen, appended atomic.Int64
	var wait sync.WaitGroup
	for i := range workers {
		e, err := s.Register(t.Context(), "here", "test")
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
				for round := i; stolen.Add(1) <= takeovers; round++ {
					u, err := steal(ctx, conn, s, e, targets[round%sessions])
					if err != nil {
						return err
					}
					for range 40 {
						step := u.append
						switch appended.Add(1) % 10 {
						case 1, 4:
							step = func(ctx context.Context, _ string) error { return u.appendTwo(ctx) }
						case 0:
							step = func(ctx context.Context, text string) error { return u.intend(ctx, text+"-"+uuid.NewString()) }
						}
						if err := step(ctx, fmt.Sprint(u.claim.Fence)); fenced(err) {
							break
						} else if err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
	wait.Wait()
	for _, id := range targets {
		texts(t, s, id)
	}
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		var late int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM (
			SELECT fence < lag(fence) OVER (PARTITION BY session_id ORDER BY seq) AS late FROM journal) j WHERE late`).Scan(&late)
		if late > 0 {
			t.Errorf("%d entries of an old owner come after those of a newer one", late)
		}
		return err
	})
	t.Logf("%d takeovers, %d appends", takeovers, appended.Load())
}

// The same, with the moment held still: an append has checked its fence and is not committed; the takeover must wait.
func TestTakeoverWaitsForAnAppendUnderWay(t *testing.T) {
	one := func(u *turn, ctx context.Context) error { return u.append(ctx, "mine") }
	for name, steps := range map[string][]func(*turn, context.Context) error{
		"one entry":               {one},
		"one entry after another": {one, one}, // by a statement of its own
		"two entries":             {(*turn).appendTwo},
		"with rows":               {func(u *turn, ctx context.Context) error { return u.intend(ctx, "c1") }},
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			u := begin(t, db.open(t, store.Options{}))
			last := len(steps) - 1
			for _, before := range steps[:last] {
				if err := before(u, t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			// A row with the append's key, not committed: the append gets as far as its insert.
			release := hold(t, db, fmt.Sprintf("INSERT INTO journal (session_id, seq, fence, kind, body) VALUES ('%s', %d, 0, 6, '')", u.claim.Session, u.last+1))
			done := make(chan error, 1)
			go func() { done <- steps[last](u, t.Context()) }()
			eventually(t, "the append waits for the key", func() bool { return waiting(t, db) == 1 })
			db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE NOWAIT", u.claim.Session)
				if refused := new(pgconn.PgError); !errors.As(err, &refused) || refused.Code != "55P03" {
					t.Errorf("a takeover does not wait for the append: %v", err)
				}
				return nil
			})
			release()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// An owner that has remembered its last entry is refused as soon as there is another, whatever it writes.
func TestOldOwnerIsRefused(t *testing.T) {
	for name, write := range map[string]func(*turn, context.Context) error{
		"one entry":   func(u *turn, ctx context.Context) error { return u.append(ctx, "late") },
		"two entries": (*turn).appendTwo,
		"with rows":   func(u *turn, ctx context.Context) error { return u.intend(ctx, "c1") },
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			s := db.open(t, store.Options{Conns: 1, Writers: 1}) // a further connection would make it forget
			u := begin(t, s)
			for range 2 {
				if err := u.append(t.Context(), "mine"); err != nil {
					t.Fatal(err)
				}
			}
			e, err := s.Register(t.Context(), "here", "test")
			if err != nil {
				t.Fatal(err)
			}
			db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
				_, err := steal(ctx, conn, s, e, u.claim.Session)
				return err
			})
			if err := write(u, t.Context()); !fenced(err) {
				t.Errorf("the old owner's step: %v, want ErrFenced", err)
			}
			if got := texts(t, s, u.claim.Session); len(got) != 2 {
				t.Errorf("the session has %q", got)
			}
		})
	}
}

// steal makes the executor the owner without asking whether the owner before is dead, as a takeover does in the end.
func steal(ctx context.Context, conn *pgx.Conn, s *store.Store, e *store.Executor, session uuid.UUID) (*turn, error) {
	u := &turn{store: s, claim: store.Claim{Session: session, Tenant: tenant, Executor: e.ID}.Remembering()}
	if err := conn.QueryRow(ctx, "UPDATE sessions SET owner = $1, fence = fence + 1, state = 3 WHERE id = $2 RETURNING fence", e.ID, session).
		Scan(&u.claim.Fence); err != nil {
		return nil, err
	}
	return u, conn.QueryRow(ctx, "SELECT max(seq) FROM journal WHERE session_id = $1", session).Scan(&u.last)
}

// An owner that is dead by its beats but holds its row whenever somebody looks is taken over all the same.
func TestBusyDeadOwnerIsTakenOver(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{})
	u := begin(t, s)
	e := survivor(t, db, s)
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT 1 FROM sessions WHERE id = $1 FOR SHARE", u.claim.Session); err != nil {
			return err
		}
		claimed := make(chan []store.Claim, 1)
		go func() {
			claims, err := s.Claim(ctx, e, 1)
			if err != nil {
				t.Error(err)
			}
			claimed <- claims
		}()
		eventually(t, "the claim waits for the lock", func() bool { return waiting(t, db) > 0 })
		if err := tx.Rollback(ctx); err != nil {
			return err
		}
		if claims := <-claimed; len(claims) != 1 || !claims[0].TookOver || claims[0].Attempts != 1 {
			t.Errorf("claims are %+v", claims)
		}
		return nil
	})
}

// waiting is how many connections of stores wait for a lock.
func waiting(t testing.TB, db database) int {
	t.Helper()
	return waitingIn(t, db, "%")
}

// waitingIn counts those that wait in one statement.
func waitingIn(t testing.TB, db database, statement string) (n int) {
	t.Helper()
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'flyfleet-runtime' AND wait_event_type = 'Lock'
				AND query LIKE '-- name: ' || $1 || ' :%'`, statement).Scan(&n)
	})
	return n
}
