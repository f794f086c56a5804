package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// A row that the database refuses is in one insert with the rows of others.
func TestPoisonedRowHarmsNoNeighbour(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{Writers: 1})
	turns := make([]*turn, 12)
	for i := range turns {
		turns[i] = begin(t, s)
	}
	bad := begin(t, s)
	release := hold(t, db, "LOCK TABLE journal IN ACCESS EXCLUSIVE MODE")
	errs := make([]error, len(turns))
	var wait sync.WaitGroup
	// One fills the writer's hands; what comes now waits for it, and goes into one insert.
	wait.Go(func() { errs[0] = turns[0].append(t.Context(), "first") })
	eventually(t, "the writer waits for the lock", func() bool { return waiting(t, db) == 1 })
	for i, u := range turns[1:] {
		wait.Go(func() { errs[i+1] = u.append(t.Context(), "good") })
	}
	var badErr error
	wait.Go(func() {
		// Text of Postgres holds no NUL.
		_, badErr = s.Commit(t.Context(), bad.claim, store.Step{After: 1, Entries: []journal.Entry{{Body: &journalv1.Body{
			Body: &journalv1.Body_ToolResult{ToolResult: &journalv1.ToolResult{CallId: "a\x00b", Outcome: journalv1.ToolOutcome_TOOL_OUTCOME_OK}},
		}}}})
	})
	release()
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("neighbour %d: %v", i, err)
		}
		if got := texts(t, s, turns[i].claim.Session); len(got) != 1 {
			t.Errorf("neighbour %d has %q", i, got)
		}
	}
	if badErr == nil {
		t.Error("the bad row was accepted")
	}
	if got := texts(t, s, bad.claim.Session); len(got) != 0 {
		t.Errorf("the bad session has %q", got)
	}
}

// Somebody holds one session's row; the appends of the others do not wait behind it.
func TestLockedSessionHoldsUpNoNeighbour(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{Writers: 1})
	locked, free := begin(t, s), begin(t, s)
	release := hold(t, db, "SELECT 1 FROM sessions WHERE id = '"+locked.claim.Session.String()+"' FOR UPDATE")
	done := make(chan error, 1)
	go func() { done <- locked.append(t.Context(), "late") }()
	eventually(t, "the append waits for the lock", func() bool { return waiting(t, db) == 1 })
	for range 5 {
		if err := free.append(t.Context(), "free"); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := texts(t, s, locked.claim.Session); len(got) != 1 {
		t.Errorf("the locked session has %q", got)
	}
}

// hold keeps what a statement locks until release.
func hold(t *testing.T, db database, sql string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
