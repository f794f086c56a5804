package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/testing/protocmp"

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

// Somebody holds one session's row; the appends of the others do not wait behind it, and neither does the writer: the step
// waits in a transaction of its own.
func TestLockedSessionHoldsUpNoNeighbour(t *testing.T) {
	for name, before := range map[string]int{"first entry": 0, "one entry after another": 1} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			s := db.open(t, store.Options{Writers: 1})
			locked, free := begin(t, s), begin(t, s)
			for range before {
				if err := locked.append(t.Context(), "early"); err != nil {
					t.Fatal(err)
				}
			}
			release := hold(t, db, "SELECT 1 FROM sessions WHERE id = '"+locked.claim.Session.String()+"' FOR UPDATE")
			done := make(chan error, 1)
			go func() { done <- locked.append(t.Context(), "late") }()
			eventually(t, "the append waits for the lock, alone", func() bool { return waitingIn(t, db, "Hold") == 1 })
			for range 5 {
				if err := free.append(t.Context(), "free"); err != nil {
					t.Fatal(err)
				}
			}
			release()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := texts(t, s, locked.claim.Session); len(got) != 1+before {
				t.Errorf("the locked session has %q", got)
			}
		})
	}
}

// Steps of many sessions, of one entry and of several, go into one insert, and each entry is there as it was.
func TestStepsThatShareAnInsertArriveAsTheyWere(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{Writers: 1})
	turns := make([]*turn, 12)
	for i := range turns {
		turns[i] = begin(t, s)
		if i%3 == 0 { // those remember their last entry, the others have none yet
			if err := turns[i].append(t.Context(), "before"); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := begin(t, s)
	release := hold(t, db, "LOCK TABLE journal IN ACCESS EXCLUSIVE MODE")
	committed := make([]store.Committed, len(turns))
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := first.append(t.Context(), "fills the writer's hands"); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the writer waits for the lock", func() bool { return waiting(t, db) == 1 })
	for i, u := range turns {
		wait.Go(func() {
			step := store.Step{After: u.last}
			for n := range 1 + i%4 {
				step.Entries = append(step.Entries,
					journal.Entry{Submission: u.claim.Submission.ID, Body: delta(fmt.Sprint("text ", i, n))},
					journal.Entry{Body: &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: fmt.Sprint("call ", n)}}}})
			}
			var err error
			if committed[i], err = s.Commit(t.Context(), u.claim, step); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all steps wait", func() bool { return s.StepsQueued() == len(turns) })
	release()
	wait.Wait()
	for i, u := range turns {
		there, err := s.Load(t.Context(), tenant, u.claim.Session, u.last, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(there, committed[i].Entries, protocmp.Transform(), cmpopts.IgnoreFields(journal.Entry{}, "At")); diff != "" || len(there) != 2*(1+i%4) {
			t.Errorf("session %d has %d entries; what is there and what Commit gave differ (-there +given):\n%s", i, len(there), diff)
		}
	}
}

// A step that is under way is finished while the store closes; one that waits, or comes later, is refused.
func TestClosingFinishesWhatHasBegun(t *testing.T) {
	db := fresh(t)
	s := db.open(t, store.Options{Writers: 1})
	begun, waits, late := begin(t, s), begin(t, s), begin(t, s)
	release := hold(t, db, "LOCK TABLE journal IN ACCESS EXCLUSIVE MODE")
	results := make([]chan error, 2)
	for i, u := range []*turn{begun, waits} {
		results[i] = make(chan error, 1)
		go func() { results[i] <- u.append(t.Context(), "x") }()
		eventually(t, "the step is under way, or waits", func() bool { return waiting(t, db) == 1 && s.StepsQueued() == i })
	}
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	if err := <-results[1]; !errors.Is(err, store.ErrClosing) {
		t.Errorf("the step that waits: %v, want ErrClosing", err)
	}
	if err := late.append(t.Context(), "x"); !errors.Is(err, store.ErrClosing) {
		t.Errorf("the step that comes later: %v, want ErrClosing", err)
	}
	release()
	if err := <-results[0]; err != nil {
		t.Errorf("the step that was under way: %v", err)
	}
	<-closed
	again := db.open(t, store.Options{})
	for want, u := range map[int]*turn{1: begun, 0: waits} {
		if got := texts(t, again, u.claim.Session); len(got) != want {
			t.Errorf("there is %q, want %d", got, want)
		}
	}
}

// A step that still waits when its context ends is taken back; of one that is under way nobody can say.
func TestStepThatNobodyWantsAnyMoreIsNotAppended(t *testing.T) {
	const lock = "LOCK TABLE journal IN ACCESS EXCLUSIVE MODE"
	db := fresh(t)
	s := db.open(t, store.Options{Writers: 1})
	turns := []*turn{begin(t, s), begin(t, s), begin(t, s), begin(t, s)}
	results, cancels := make([]chan error, len(turns)), make([]context.CancelCauseFunc, len(turns))
	commit := func(i int, underWay func() bool) {
		var ctx context.Context
		ctx, cancels[i] = context.WithCancelCause(t.Context())
		results[i] = make(chan error, 1)
		go func() { results[i] <- turns[i].append(ctx, "x") }()
		eventually(t, fmt.Sprintf("step %d is under way, or waits", i), underWay)
	}
	unknown := func(i int) {
		t.Helper()
		cancels[i](store.ErrLapsed)
		if err := <-results[i]; !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("step %d, under way: %v, want ErrOutcomeUnknown", i, err)
		}
	}

	if err := begin(t, s).append(t.Context(), "prepares the statement, which would let go of the lock in between"); err != nil {
		t.Fatal(err)
	}
	release := hold(t, db, lock)
	commit(0, func() bool { return waiting(t, db) == 1 })
	commit(1, func() bool { return s.StepsQueued() == 1 })
	cancels[1](store.ErrLapsed)
	if err := <-results[1]; !errors.Is(err, store.ErrLapsed) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("step 1, which waited: %v, want ErrLapsed", err)
	}
	commit(2, func() bool { return s.StepsQueued() == 1 })
	again := make(chan func())
	go func() { again <- hold(t, db, lock) }() // behind the first step, before the one that waits for it
	eventually(t, "the lock is asked for again", func() (asked bool) {
		db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_locks
				WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND mode = 'AccessExclusiveLock' AND NOT granted`).Scan(&asked)
		})
		return asked
	})
	release()
	release = <-again
	if err := <-results[0]; err != nil {
		t.Error(err)
	}
	eventually(t, "step 2 is under way", func() bool { return waiting(t, db) == 1 && s.StepsQueued() == 0 })
	unknown(2)
	release()
	release = hold(t, db, lock)
	commit(3, func() bool { return waiting(t, db) == 1 })
	unknown(3)
	release()
	if got := texts(t, s, turns[1].claim.Session); len(got) != 0 {
		t.Errorf("the step that was taken back is there: %q", got)
	}
}

// What an owner has seen committed may be gone when another server answers: it looks again whether its last entry is there.
func TestEntryThatTheServerLostIsMissed(t *testing.T) {
	for name, next := range map[string]func(*turn, context.Context) error{
		"one entry":   func(u *turn, ctx context.Context) error { return u.append(ctx, "after the loss") },
		"two entries": (*turn).appendTwo,
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			u := begin(t, db.open(t, store.Options{TTL: time.Hour}))
			for range 3 {
				if err := u.append(t.Context(), "x"); err != nil {
					t.Fatal(err)
				}
			}
			db.exec(t, fmt.Sprintf("DELETE FROM journal WHERE session_id = '%s' AND seq = %d", u.claim.Session, u.last))
			db.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'flyfleet-runtime'")
			if err := next(u, t.Context()); !errors.Is(err, store.ErrGap) {
				t.Errorf("the next step: %v, want ErrGap", err)
			}
		})
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
