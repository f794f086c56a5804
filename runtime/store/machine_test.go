package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// interrupted runs work while a transaction of somebody else has done the statements, and commits that one when work waits for
// a lock, or is done without.
func (d database) interrupted(t *testing.T, statements []string, work func(), meanwhile func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work()
	}()
	eventually(t, "it waits for the lock, or is done", func() bool {
		select {
		case <-done:
			return true
		default:
		}
		var waiting bool
		if err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid())").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting
	})
	if meanwhile != nil {
		meanwhile()
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
}

// Whoever looks at a machine's row in the moment of a rest's mark sees the mark.
func TestSessionThatBeginsWaitsForTheMarkOfARest(t *testing.T) {
	d := fresh(t)
	s := d.open(t, store.Options{})
	if err := s.PutMachine(t.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1); err != nil {
		t.Fatal(err)
	}
	var m store.Machine
	var err error
	d.interrupted(t, []string{"SELECT 1 FROM machines WHERE id = 'm1' FOR UPDATE", "UPDATE machines SET state = 3 WHERE id = 'm1'"}, func() {
		m, err = s.UseMachine(t.Context(), "m1")
	}, nil)
	if err != nil || !m.Resting {
		t.Errorf("machine %+v, error %v", m, err)
	}
}

// A session that runs before a rest has the row is seen by it, though it came after the rest began to wait.
func TestRestSeesASessionThatWasFaster(t *testing.T) {
	d := fresh(t)
	s := d.open(t, store.Options{})
	if err := s.PutMachine(t.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1); err != nil {
		t.Fatal(err)
	}
	d.Elapse(t, 2*time.Hour)
	var began bool
	var err error
	d.interrupted(t, []string{"SELECT 1 FROM machines WHERE id = 'm1' FOR SHARE"}, func() {
		began, err = s.BeginRest(t.Context(), "m1", time.Hour)
	}, func() { begin(t, s) })
	if err != nil || began {
		t.Errorf("began %v, error %v", began, err)
	}
}

// Two sessions of a tenant on two replicas: the second waits for the first one's machine.
func TestSecondClaimOfATenantGetsTheFirstOnesMachine(t *testing.T) {
	d := fresh(t)
	s := d.open(t, store.Options{})
	for _, id := range []string{"m1", "m2"} {
		if err := s.PutMachine(t.Context(), store.Machine{ID: id, App: id, Pool: "warm"}, 1); err != nil {
			t.Fatal(err)
		}
	}
	var m store.Machine
	var err error
	d.interrupted(t, []string{
		"SELECT pg_advisory_xact_lock(hashtextextended('machine of " + tenant + "', 0))", "UPDATE machines SET tenant_id = '" + tenant + "' WHERE id = 'm1'",
	}, func() { m, err = s.ClaimFromPool(t.Context(), "warm", tenant) }, nil)
	if err != nil || m.ID != "m1" {
		t.Errorf("machine %+v, error %v", m, err)
	}
}
