package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// Replicas that start together migrate once.
func TestMigrationsRunOnceAmongReplicas(t *testing.T) {
	url := pgtest.Database(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if err := store.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	db := database{url: url}
	u := begin(t, db.open(t, store.Options{}))
	if err := u.append(t.Context(), "works"); err != nil {
		t.Error(err)
	}
}

// Entries of new sessions are in the partition of their month, not in the one for the rest.
func TestEntriesAreInTheirMonth(t *testing.T) {
	db := fresh(t)
	u := begin(t, db.open(t, store.Options{}))
	var in string
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT tableoid::regclass::text FROM journal WHERE session_id = $1 LIMIT 1", u.claim.Session).Scan(&in)
	})
	if !strings.HasPrefix(in, "journal_2") {
		t.Errorf("the entries are in %s", in)
	}
}

// Replicas that tidy at once make a month that is missing, and drop an empty one, once; none of them fails.
func TestMonthsAreOneReplicasAtATime(t *testing.T) {
	db := fresh(t)
	replicas := []*store.Store{db.open(t, store.Options{}), db.open(t, store.Options{}), db.open(t, store.Options{}), db.open(t, store.Options{})}
	for range 10 {
		db.exec(t, "SELECT journal_month('2020-01-15')")
		db.exec(t, "DO $$ BEGIN EXECUTE format('DROP TABLE journal_%s', to_char((now() + interval '1 month') AT TIME ZONE 'UTC', 'YYYYMM')); END $$")
		var wait sync.WaitGroup
		for _, s := range replicas {
			wait.Go(func() {
				if err := s.Tidy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
}

// Old months go when they are empty, and only then.
func TestEmptyMonthsGo(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{})
	db.exec(t, "SELECT journal_month('2020-01-15'), journal_month('2020-02-15')")
	// A session that was made in February 2020.
	db.exec(t, `INSERT INTO journal (session_id, seq, fence, kind, body)
		VALUES ((lpad(to_hex((extract(epoch FROM timestamptz '2020-02-20') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid, 1, 0, 1, '')`)
	if err := s.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	var months []string
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'journal'::regclass ORDER BY 1")
		if err != nil {
			return err
		}
		months, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	all := strings.Join(months, " ")
	if strings.Contains(all, "202001") || !strings.Contains(all, "202002") || len(months) != 4 {
		t.Errorf("partitions are %s", all)
	}
}
