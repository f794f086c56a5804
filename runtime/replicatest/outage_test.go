//go:build linux

package replicatest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// lock runs a statement in a transaction that stays open until free is called.
func (r *rig) lock(sql string) (free func()) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	free = func() {
		_ = conn.Close(ctx)
		cancel()
	}
	r.t.Cleanup(free)
	if _, err := conn.Exec(ctx, "BEGIN; "+sql); err != nil {
		r.t.Fatal(err)
	}
	return free
}

// server is a cluster of the test's own, whose commits are durable.
func server(t *testing.T, settings pglocal.Settings) (*pglocal.Server, string) {
	t.Helper()
	s, err := pglocal.Start(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	url := pgtest.DatabaseOn(t, s)
	if err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return s, url
}

// dbos-inc/dbos-transact-py#804: the database restarts while work is recovered. Here what was acknowledged is there, what was not
// is done again or looked up, and every submission has one end.
func TestDatabaseCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	s, url := server(t, pglocal.Settings{})
	r := newRigOn(t, url, either(3*time.Second, 15*time.Second))
	replicas := r.startMany(2)
	var all []work
	for round := range either(2, 10) {
		for i := range 12 {
			all = append(all, r.submit(fmt.Sprintf("%d-%d", round, i), busy))
		}
		r.soon("calls are under way", func() bool { return r.count("effects WHERE state = 3") > 2 })
		if round == 1 {
			replicas[1].kill()
			replicas[1] = r.start()
		}
		if err := s.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.completes(all)
	r.audit(all)
	r.faultless()
}

// The database has no connection left for the replicas, whose own were cut: they wait, start nothing twice, and go on when there
// is room.
func TestDatabaseHasNoConnectionLeft(t *testing.T) {
	t.Parallel()
	s, url := server(t, pglocal.Settings{"max_connections": "24", "superuser_reserved_connections": "3"})
	r := newRigOn(t, url, either(1500*time.Millisecond, 15*time.Second))
	r.startMany(2)
	all := r.submitMany(16, busy)
	r.soon("calls are under way", func() bool { return r.count("effects WHERE state = 3") > 4 })
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	if err := s.Crash(ctx); err != nil {
		t.Fatal(err)
	}
	var hogs []*pgx.Conn
	release := func() {
		for _, hog := range hogs {
			_ = hog.Close(context.Background())
		}
		hogs = nil
	}
	defer release()
	// Every connection that becomes free is taken, and those that others have are cut, until nobody can beat any more.
	hogURL := named(t, url, "hog")
	r.soon("the replicas know that they cannot beat", func() bool {
		for {
			hog, err := pgx.Connect(ctx, hogURL)
			if err != nil {
				break
			}
			hogs = append(hogs, hog)
		}
		if len(hogs) > 0 {
			if _, err := hogs[0].Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'hog'"); err != nil {
				t.Fatal(err)
			}
		}
		return !slices.ContainsFunc(r.replicas, func(p *replica) bool { return p.status().Trusted })
	})
	release()
	r.completes(all)
	r.audit(all)
	r.faultless()
}
