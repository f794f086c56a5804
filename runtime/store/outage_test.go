package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// own is a cluster of this test's own, which it may crash.
func own(t *testing.T, settings pglocal.Settings) (*pglocal.Server, database) {
	t.Helper()
	server, err := pglocal.Start(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	db := database{url: pgtest.DatabaseOn(t, server)}
	if err := store.Migrate(t.Context(), db.url); err != nil {
		t.Fatal(err)
	}
	return server, db
}

// dbos-inc/dbos-transact-py#716, dbos-inc/dbos-transact-py#804: the database restarts under load. Everything that was acknowledged is there once, in
// order, and whoever was at work goes on without being told.
func TestDatabaseCrashesLoseNothing(t *testing.T) {
	t.Parallel()
	server, db := own(t, pglocal.Settings{"fsync": "off"})
	s := db.open(t, store.Options{TTL: time.Hour})
	const sessions, crashes = 8, 3
	var progress atomic.Int64
	stop := make(chan struct{})
	turns := make([]*turn, sessions)
	acknowledged := make([][]string, sessions)
	var wait sync.WaitGroup
	for i := range turns {
		turns[i] = begin(t, s)
	}
	for i, u := range turns {
		wait.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(n)
				err := u.append(t.Context(), text)
				if n%5 == 4 && err == nil {
					err = u.intend(t.Context(), fmt.Sprint("call", n))
				}
				if err != nil {
					t.Errorf("session %d, step %d: %v", i, n, err)
					return
				}
				acknowledged[i] = append(acknowledged[i], text)
				progress.Add(1)
			}
		})
	}
	for range crashes {
		before := progress.Load()
		eventually(t, "the sessions go on", func() bool { return progress.Load() > before+5*sessions || t.Failed() })
		if err := server.Crash(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := progress.Load()
	eventually(t, "the sessions go on after the last crash", func() bool { return progress.Load() > before+sessions || t.Failed() })
	close(stop)
	wait.Wait()
	for i, u := range turns {
		if got, want := texts(t, s, u.claim.Session), acknowledged[i]; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("session %d has %d entries, %d were acknowledged", i, len(got), len(want))
		}
	}
}

// A submission that was acknowledged survives a crash, and its repetition is the same one (a2aproject/A2A#928).
func TestAdmittedWorkSurvivesACrash(t *testing.T) {
	t.Parallel()
	server, db := own(t, pglocal.Settings{"fsync": "off"})
	s := db.open(t, store.Options{})
	id := store.NewID()
	if _, err := s.CreateSession(t.Context(), tenant, "agent", id); err != nil {
		t.Fatal(err)
	}
	in := store.Input{Tenant: tenant, Session: id, Key: "k", Payload: []byte("p")}
	first, err := s.Submit(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	var again store.Submission
	eventually(t, "the store finds the database again", func() bool {
		again, err = s.Submit(t.Context(), in)
		return err == nil
	})
	if again.ID != first.ID {
		t.Errorf("submitted %s, again %s", first.ID, again.ID)
	}
}

// Others have taken every connection: steps wait for one, and nothing is lost. (langchain-ai/langgraph#5675: a connection is held
// across a model call until there are none.)
func TestStepsWaitForAConnection(t *testing.T) {
	t.Parallel()
	_, db := own(t, pglocal.Settings{"fsync": "off", "max_connections": "20"})
	s := db.open(t, store.Options{TTL: time.Hour})
	u := begin(t, s)
	// The store's connections go, and others take their places.
	db.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flyfleet-runtime'`)
	greedy := takeAll(t, db)
	// What the store got back meanwhile goes too.
	if _, err := greedy[0].Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flyfleet-runtime'`); err != nil {
		t.Fatal(err)
	}
	greedy = append(greedy, takeAll(t, db)...)
	done := make(chan error, 2)
	go func() {
		done <- u.append(t.Context(), "one")
		done <- u.intend(t.Context(), "c1")
	}()
	for _, conn := range greedy {
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := texts(t, s, u.claim.Session); len(got) != 1 {
		t.Errorf("entries are %q", got)
	}
}

// takeAll opens connections until the database has none left.
func takeAll(t *testing.T, db database) []*pgx.Conn {
	t.Helper()
	var all []*pgx.Conn
	for {
		conn, err := pgx.Connect(t.Context(), db.url)
		if err != nil {
			if !strings.Contains(err.Error(), "53300") {
				t.Fatal(err)
			}
			return all
		}
		all = append(all, conn)
	}
}

// When the context ends while the database is away, the caller is told that it does not know.
func TestOutageEndsWithUnknownOutcome(t *testing.T) {
	t.Parallel()
	server, db := own(t, pglocal.Settings{"fsync": "off"})
	s := db.open(t, store.Options{TTL: time.Hour})
	u := begin(t, s)
	if err := server.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	for name, write := range map[string]func(context.Context) error{
		"by the writer": func(ctx context.Context) error { return u.append(ctx, "lost") },
		"alone":         func(ctx context.Context) error { return u.intend(ctx, "lost") },
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- write(ctx) }()
		stop(cause)
		if err := <-done; !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, cause) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.append(t.Context(), "after"); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, s, u.claim.Session); len(got) != 1 || got[0] != "after" {
		t.Errorf("entries are %q", got)
	}
}
