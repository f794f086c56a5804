package store_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// riverqueue/river#1358: the cancel comes while LISTEN reconnects. It is a row; the watcher is told to look anyway.
func TestBrokenListenerIsToldAllTheSame(t *testing.T) {
	db := fresh(t)
	s, other := db.open(t, store.Options{TTL: time.Hour}), db.open(t, store.Options{})
	u := begin(t, s)
	look, stop := s.Notifier().WatchNews(u.claim.Session)
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

// An owner is told of what others have for it, and not of each entry that it wrote itself: a command that prints would make it
// look into the database forty times a second. Everybody else is told of both.
func TestHintsSayForWhomTheyAre(t *testing.T) {
	written, decided, other := store.NewID(), store.NewID(), store.NewID()
	from := store.NewNotifier()
	from.Changed(written)
	from.Changed(decided)
	from.Ready(decided)
	hint := from.Take()
	if again := from.Take(); again != "" {
		t.Errorf("the hint %q comes again: %q", hint, again)
	}
	from.Changed(written)
	quiet := from.Take()
	name := func(id uuid.UUID) string { return id.String()[28:] }
	for what, c := range map[string]struct {
		hint                 string
		changed, news, ready []uuid.UUID
	}{
		"entries and a decision":   {hint, []uuid.UUID{written, decided}, []uuid.UUID{decided}, []uuid.UUID{uuid.Nil}},
		"entries":                  {quiet, []uuid.UUID{written}, nil, nil},
		"everything":               {"*", []uuid.UUID{written, decided, other}, []uuid.UUID{written, decided, other}, []uuid.UUID{uuid.Nil}},
		"an older build's, ready":  {"!" + name(written) + "," + name(decided) + ",", []uuid.UUID{written, decided}, []uuid.UUID{written, decided}, []uuid.UUID{uuid.Nil}},
		"an older build's, others": {name(written) + ",", []uuid.UUID{written}, nil, nil},
		"what nobody sends":        {"0,|,!,xxxxxxxx,,0123456789ab,|" + name(other), nil, nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			to := store.NewNotifier()
			told := map[string][]uuid.UUID{}
			type watcher struct {
				kind string
				id   uuid.UUID
				look <-chan struct{}
			}
			var all []watcher
			ready, stop := to.WatchReady()
			defer stop()
			all = append(all, watcher{"ready", uuid.Nil, ready})
			for _, id := range []uuid.UUID{written, decided, other} {
				changed, stop := to.Watch(id)
				defer stop()
				news, stop := to.WatchNews(id)
				defer stop()
				all = append(all, watcher{"changed", id, changed}, watcher{"news", id, news})
			}
			for _, w := range all {
				<-w.look // everybody looks once at the start
			}
			to.Tell(c.hint)
			for _, w := range all {
				select {
				case <-w.look:
					told[w.kind] = append(told[w.kind], w.id)
				default:
				}
			}
			for kind, want := range map[string][]uuid.UUID{"changed": c.changed, "news": c.news, "ready": c.ready} {
				if !slices.Equal(told[kind], want) {
					t.Errorf("the hint %q tells %s of %v, want %v", c.hint, kind, told[kind], want)
				}
			}
		})
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
		most := int(time.Since(begun)/(20*time.Millisecond)) + 2
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
