package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journaltest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// database is a migrated database of a test.
type database struct{ url string }

func fresh(t testing.TB) database {
	t.Helper()
	return database{url: pgtest.Migrated(t)}
}

// Open is one more replica's store.
func (d database) Open(t testing.TB, o store.Options) journaltest.Store { return d.open(t, o) }

func (d database) open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	o.URL = d.url
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Elapse sets every point in time that the database holds back by d.
func (d database) Elapse(t testing.TB, by time.Duration) {
	t.Helper()
	for table, columns := range map[string][]string{
		"executors":              {"started_at", "beat_at"},
		"sessions":               {"wake_at", "parked_at", "created_at", "touched_at"},
		"submissions":            {"deadline_at", "cancel_at", "created_at", "settled_at"},
		"submission_credentials": {"expires_at"},
		"approvals":              {"requested_at", "expires_at", "decided_at"},
		"machines":               {"seen_at", "idle_at"},
		"machine_slots":          {"claimed_at"},
		"execs":                  {"started_at", "ended_at"},
		"blobs":                  {"touched_at"},
		"chores":                 {"done_at"},
		"callbacks":              {"asked_at", "answered_at"},
	} {
		set := ""
		for i, column := range columns {
			if i > 0 {
				set += ", "
			}
			set += fmt.Sprintf("%s = %s - make_interval(secs => %f)", column, column, by.Seconds())
		}
		d.exec(t, "UPDATE "+table+" SET "+set)
	}
}

func (d database) exec(t testing.TB, sql string) {
	t.Helper()
	d.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func (d database) with(t testing.TB, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := do(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsItsPromises(t *testing.T) {
	journaltest.Run(t, func(t testing.TB) journaltest.Database { return fresh(t) })
}
