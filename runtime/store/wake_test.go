package store_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// riverqueue/river#1358: the cancel comes while LISTEN reconnects. It is a row; the watcher is told to look anyway.
func TestBrokenListenerIsToldAllTheSame(t *testing.T) {
	db := fresh(t)
	s, other := db.open(t, store.Options{TTL: time.Hour}), db.open(t, store.Options{})
	u := begin(t, s)
	look, stop := s.Notifier().Watch(u.claim.Session)
	defer stop()
	db.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	if err := other.Cancel(t.Context(), tenant, u.claim.Submission.ID); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for {
		news, err := s.Look(t.Context(), u.claim)
		if err == nil && news.Cancelled {
			return
		}
		select {
		case <-look:
		case <-deadline:
			t.Fatalf("the cancel is not seen: %v", err)
		}
	}
}

// A NOTIFY takes a lock of the whole database: appends have none, and a replica sends few.
func TestHintsAreCoalesced(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{TTL: time.Hour})
	u := begin(t, s)
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "LISTEN flyfleet"); err != nil {
			return err
		}
		begun := time.Now()
		const appends = 200
		for range appends {
			if err := u.append(ctx, "x"); err != nil {
				return err
			}
		}
		look, stop := s.Notifier().Watch(u.claim.Session)
		defer stop()
		for range 2 { // a tick of the poll comes after the last hint was sent
			<-look
		}
		most := int(time.Since(begun)/(10*time.Millisecond)) + 2
		hints := 0
		for {
			wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, err := conn.WaitForNotification(wait)
			cancel()
			if err != nil {
				break
			}
			hints++
		}
		if hints == 0 || hints > most || hints > appends {
			t.Errorf("%d hints for %d appends, want 1 to %d", hints, appends, most)
		}
		return nil
	})
}

// langchain-ai/langgraph#5675, langchain-ai/langgraph#7259: what waits holds nothing, and a replica's connections do not grow with its sessions.
func TestParkedAndRunningSessionsHoldNoConnection(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{TTL: time.Hour})
	const each = 60
	first := begin(t, s) // every connection that a step needs has been used
	if err := first.intend(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	for i := range 2 * each {
		u := begin(t, s)
		if err := u.append(t.Context(), "at work"); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if parked, err := s.Park(t.Context(), u.claim); err != nil || !parked {
				t.Fatalf("parked %v, error %v", parked, err)
			}
		}
	}
	var all, busy int
	eventually(t, "no connection is in a transaction", func() bool {
		db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'flyfleet-runtime'`).Scan(&all, &busy)
		})
		return busy == 0
	})
	if all > 8 {
		t.Errorf("%d connections for %d sessions, want at most 8", all, 2*each+1)
	}
	if now := runtime.NumGoroutine(); now > goroutines+4 {
		t.Errorf("%d goroutines, were %d: sessions hold some", now, goroutines)
	}
}
