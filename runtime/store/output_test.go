package store_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Output of a command waits in a lane under two claims of its session, as after a takeover within one process: each is judged
// by its own fence, whichever came first.
func TestOutputIsStoredUnderTheFenceOfItsOwnClaim(t *testing.T) {
	for name, order := range map[string][]string{
		"the old owner's first": {"old", "new"},
		"the new owner's first": {"new", "old"},
		"in turns":              {"new", "old", "new", "old", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			db := fresh(t)
			s := db.open(t, store.Options{OutputLanes: 1})
			other, u := begin(t, s), begin(t, s)
			busy, exec := other.exec(t, "c1"), u.exec(t, "c1")
			claims := map[string]store.Claim{"old": u.claim, "new": takeOver(t, db, u)}
			write := func(c store.Claim, exec uuid.UUID, off int, text string) <-chan error {
				done := make(chan error, 1)
				go func() {
					done <- s.AppendOutput(t.Context(), c, []store.Chunk{{
						Exec: exec, Stream: store.Stdout, Off: int64(off), RawLen: int64(len(text)), Data: []byte(text),
					}})
				}()
				return done
			}
			// One fills the lane's hands; what comes now waits behind it.
			release := hold(t, db, "LOCK TABLE exec_output IN ACCESS EXCLUSIVE MODE")
			first := write(other.claim, busy, 0, "busy")
			eventually(t, "the lane waits for the lock", func() bool { return waiting(t, db) == 1 })
			var answers []<-chan error
			var want []string
			for i, owner := range order {
				answers = append(answers, write(claims[owner], exec, i*len(owner), owner))
				eventually(t, "the chunk is queued", func() bool { return s.OutputQueued() == i+1 })
				if owner == "new" {
					want = append(want, owner)
				}
			}
			release()
			if err := <-first; err != nil {
				t.Fatal(err)
			}
			for i, owner := range order {
				if err := <-answers[i]; owner == "new" && err != nil || owner == "old" && !fenced(err) {
					t.Errorf("chunk %d, of the %s owner: %v", i, owner, err)
				}
			}
			stored, err := s.ReadOutput(t.Context(), tenant, exec, store.Stdout, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, chunk := range stored {
				got = append(got, string(chunk.Data))
			}
			if !slices.Equal(got, want) {
				t.Errorf("stored is %q, want %q", got, want)
			}
		})
	}
}

// takeOver gives another executor's claim of the turn's session.
func takeOver(t *testing.T, db database, u *turn) store.Claim {
	t.Helper()
	e, err := u.store.Register(t.Context(), "there", "test")
	if err != nil {
		t.Fatal(err)
	}
	var claim store.Claim
	db.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		taken, err := steal(ctx, conn, u.store, e, u.claim.Session)
		if err == nil {
			claim = taken.claim
		}
		return err
	})
	return claim
}

// exec starts a command for a new call and gives its id.
func (u *turn) exec(t *testing.T, call string) uuid.UUID {
	t.Helper()
	if err := u.intend(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	id := store.NewID()
	_, err := u.store.Commit(t.Context(), u.claim, store.Step{
		After: u.last,
		Entries: []journal.Entry{
			{Body: &journalv1.Body{Body: &journalv1.Body_ToolStarted{ToolStarted: &journalv1.ToolStarted{CallId: call}}}},
			{Body: &journalv1.Body{Body: &journalv1.Body_ExecStarted{ExecStarted: &journalv1.ExecStarted{CallId: call, ExecId: id.String(), Machine: "m1"}}}},
		},
		Start: []store.Start{{Call: call, ArgsSHA256: args(call)}},
		Execs: []store.Exec{{ID: id, Call: call, Machine: "m1", Epoch: "e1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	u.last += 2
	return id
}
