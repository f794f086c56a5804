package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// What goes by its age leaves no row anywhere, and gives back the place that it had on a machine.
func TestNothingIsLeftOfAnOldSession(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	s := db.open(t, store.Options{TTL: time.Hour})
	if err := s.PutMachine(t.Context(), store.Machine{ID: "m1", App: "a", Tenant: tenant}, 1); err != nil {
		t.Fatal(err)
	}
	u := begin(t, s)
	session, exec := u.claim.Session, u.exec(t, "c1")
	db.exec(t, fmt.Sprintf("UPDATE machine_slots SET session_id = '%s', fence = 1, claimed_at = now()", session))
	if err := s.AppendOutput(t.Context(), u.claim, []store.Chunk{{Exec: exec, Stream: store.Stdout, RawLen: 3, Data: []byte("out")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AskCall(t.Context(), store.Ask{Tenant: tenant, Session: session, Exec: exec, Tool: "crm", MostOpen: 1, Most: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Index(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	there := db.rowsOf(t, session, exec)
	for _, table := range []string{"sessions", "submissions", "journal", "journal_fts", "effects", "execs", "exec_output", "callbacks", "machine_slots"} {
		if !slices.Contains(there, table) {
			t.Errorf("the test has nothing in %s", table)
		}
	}
	db.exec(t, "UPDATE sessions SET state = 1, owner = NULL")
	db.Elapse(t, 48*time.Hour)
	if n, err := s.Retain(t.Context(), 24*time.Hour, 10); err != nil || n != 1 {
		t.Fatalf("%d sessions went, %v", n, err)
	}
	if left := db.rowsOf(t, session, exec); len(left) > 0 {
		t.Errorf("there still is something in %v", left)
	}
}

// rowsOf are the tables that have a row with one of the ids in it.
func (d database) rowsOf(t *testing.T, ids ...uuid.UUID) (found []string) {
	t.Helper()
	d.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT c.table_name, c.column_name FROM information_schema.columns c
			JOIN information_schema.tables t USING (table_schema, table_name)
			WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type = 'uuid' AND c.table_name !~ '^journal_[0-9]|^journal_rest'`)
		if err != nil {
			return err
		}
		columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column string }])
		if err != nil {
			return err
		}
		for _, c := range columns {
			var has bool
			sql := fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s WHERE %s = ANY($1))", c.Table, c.Column)
			if err := conn.QueryRow(ctx, sql, ids).Scan(&has); err != nil {
				return err
			}
			if has && !slices.Contains(found, c.Table) {
				found = append(found, c.Table)
			}
		}
		return nil
	})
	return found
}

// What happens to an old session while it is being deleted keeps it: work, or a fork that reads it.
func TestOldSessionThatIsNeededAgainStays(t *testing.T) {
	for name, sql := range map[string][]string{
		"something happens to it": {"UPDATE sessions SET touched_at = clock_timestamp() WHERE id = '%[1]s'"},
		"it is forked": {
			"SELECT 1 FROM sessions WHERE id = '%[1]s' FOR SHARE",
			"INSERT INTO sessions (id, tenant_id, agent, parent_id, base_seq, lineage, lineage_upto) VALUES ('%[2]s', 'tenant-one', 'agent', '%[1]s', 1, '{%[1]s}', '{1}')",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			s := db.open(t, store.Options{})
			id := store.NewID()
			if _, err := s.CreateSession(t.Context(), tenant, "agent", id); err != nil {
				t.Fatal(err)
			}
			db.Elapse(t, 48*time.Hour)
			var statements []string
			for _, statement := range sql {
				statements = append(statements, fmt.Sprintf(statement+" -- %[2]s", id, store.NewID()))
			}
			db.interrupted(t, statements, func() {
				if n, err := s.Retain(t.Context(), 24*time.Hour, 10); err != nil || n != 0 {
					t.Errorf("%d sessions went, %v", n, err)
				}
			}, nil)
			if entries, err := s.Load(t.Context(), tenant, id, 0, 0); err != nil || len(entries) != 1 {
				t.Errorf("entries %+v, %v", entries, err)
			}
		})
	}
}
