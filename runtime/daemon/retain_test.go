package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// Sessions and output that are older than they are to be kept go, by themselves; what is younger stays, and where nothing is said
// everything stays.
func TestWhatIsOldGoesWhenItIsNotToBeKept(t *testing.T) {
	url := pgtest.Migrated(t)
	first := startReplicaOn(t, url, "", nil)
	idle, busy := first.session(), first.session()
	for _, session := range []string{idle, busy} {
		first.submit(session, "run: echo kept\nsay: done")
	}
	first.stop()
	rewind(t, url, 48*time.Hour)

	second := startReplicaOn(t, url, "", nil)
	// Something happens to it.
	second.submit(busy, "say: again")
	second.stop()
	if there, output := kept(t, url, idle); !there || output != 1 {
		t.Fatalf("without a setting the session is there: %v, with %d pieces of output", there, output)
	}

	third := startReplicaOn(t, url, "", func(c *Config) { c.KeepOutput, c.KeepSessions = 24*time.Hour, 72*time.Hour })
	third.soon("old output goes", func() bool { _, output := kept(t, url, idle); return output == 0 })
	third.stop()
	if there, _ := kept(t, url, idle); !there {
		t.Fatal("a session went that is young enough")
	}

	// One pass a minute, whoever makes it.
	shorter := func(c *Config) { c.KeepSessions = 24 * time.Hour }
	early := startReplicaOn(t, url, "", shorter)
	early.submit(busy, "run: echo kept\nsay: once more")
	early.stop()
	if there, _ := kept(t, url, idle); !there {
		t.Fatal("a replica made a pass that was not due")
	}
	rewind(t, url, time.Hour)

	fourth := startReplicaOn(t, url, "", shorter)
	fourth.soon("the old session goes", func() bool { there, _ := kept(t, url, idle); return !there })
	fourth.stop()
	// Nothing is said about output.
	if there, output := kept(t, url, busy); !there || output != 1 {
		t.Errorf("a session to which something had happened is there: %v, with %d pieces of output", there, output)
	}
}

// rewind lets so much time go by, for the database.
func rewind(t *testing.T, url string, by time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, column := range [][2]string{{"sessions", "touched_at"}, {"execs", "ended_at"}, {"chores", "done_at"}} {
		if _, err := conn.Exec(t.Context(), "UPDATE "+column[0]+" SET "+column[1]+" = "+column[1]+" - make_interval(secs => $1)", by.Seconds()); err != nil {
			t.Fatal(err)
		}
	}
}

// kept says whether a session is there, and how much output of all sessions' commands.
func kept(t *testing.T, url, session string) (there bool, output int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	err = conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $1),
		(SELECT count(*) FROM exec_output o JOIN execs x ON x.id = o.exec_id WHERE x.session_id = $1)`, uuid.MustParse(session)).Scan(&there, &output)
	if err != nil {
		t.Fatal(err)
	}
	return there, output
}
