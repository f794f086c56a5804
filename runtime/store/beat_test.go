package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// However many of a replica's sessions wait for its connections, and however long: its beat does not.
func TestBeatWaitsForNoSession(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	s := db.open(t, store.Options{TTL: time.Hour})
	u := begin(t, s)
	e, err := s.Register(t.Context(), "here", "v")
	if err != nil {
		t.Fatal(err)
	}
	holder, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close(t.Context()) }()
	if _, err := holder.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT 1 FROM sessions WHERE id = $1 FOR UPDATE", u.claim.Session); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			// How it ends is no matter: the row is locked for as long as the test likes.
			_, _ = s.Submit(t.Context(), store.Input{Tenant: tenant, Session: u.claim.Session, Key: fmt.Sprint("k", i)})
		})
	}
	eventually(t, "all connections wait", func() bool {
		n := 0
		db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		})
		return n == 4
	})
	if err := s.Beat(t.Context(), e); err != nil {
		t.Error(err)
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
}

// Two replicas could not reach the database for longer than the lease: who comes back first takes nobody for dead who has not
// had the time to say that it lives. Later it does.
func TestWhoCouldNotBeatJudgesNobodyAtOnce(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	clock := &manual{at: time.Now()}
	s := db.open(t, store.Options{TTL: time.Hour, Now: clock.now})
	u := begin(t, s)
	other, err := s.Register(t.Context(), "other", "v")
	if err != nil {
		t.Fatal(err)
	}
	claim := func() []store.Claim {
		t.Helper()
		claims, err := s.Claim(t.Context(), other, 10)
		if err != nil {
			t.Fatal(err)
		}
		return claims
	}
	beat := func(e *store.Executor) {
		t.Helper()
		if err := s.Beat(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	elapse := func(d time.Duration) {
		clock.elapse(d)
		db.Elapse(t, d)
	}
	elapse(2 * time.Hour)
	beat(other)
	if claims := claim(); len(claims) > 0 {
		t.Fatalf("taken over at once: %+v", claims)
	}
	// The owner comes a little later, and has lost nothing.
	if err := u.append(t.Context(), "still here"); err != nil {
		t.Fatal(err)
	}
	// Another outage, which the owner does not survive.
	elapse(2 * time.Hour)
	for range 6 {
		beat(other)
		if claims := claim(); len(claims) > 0 {
			t.Fatalf("taken over before the owner had the time of a lease: %+v", claims)
		}
		elapse(11 * time.Minute)
	}
	beat(other)
	claims := claim()
	if len(claims) != 1 || claims[0].Attempts != 1 {
		t.Errorf("claimed %+v", claims)
	}
}

type manual struct {
	mu sync.Mutex
	at time.Time
}

func (m *manual) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *manual) elapse(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}
