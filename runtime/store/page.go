package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Page is a piece of a session's history.
type Page struct {
	// Session is as it was before the entries were read: when it is closed and there are none, there will be none.
	Session Session
	Entries []journal.Entry
}

// LoadPage gives what Load does, at most most entries and bytes of bodies, but one at least when there is one.
func (s *Store) LoadPage(ctx context.Context, tenant string, id uuid.UUID, after int64, most int, bytes int64) (Page, error) {
	session, err := s.Session(ctx, tenant, id)
	if err != nil {
		return Page{}, err
	}
	ranges := session.ranges(after)
	rows, err := ask(ctx, s.query.LoadPage, statement.LoadPageParams{
		Sessions: ranges.sessions, Afters: ranges.afters, Uptos: ranges.uptos, TenantID: tenant, Most: int32(most), Bytes: bytes,
	})
	if err != nil {
		return Page{}, fmt.Errorf("store: load session %s: %w", id, err)
	}
	page := Page{Session: session, Entries: make([]journal.Entry, 0, len(rows))}
	for _, r := range rows {
		e, err := entryOf(statement.LoadEntriesRow(r))
		if err != nil {
			return Page{}, fmt.Errorf("session %s, entry %d: %w", r.SessionID, r.Seq, err)
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// Command is a command in the journal.
type Command struct {
	// Seq of its exec_started.
	Seq  int64
	Exec uuid.UUID
	Call string
}

// CommandsAt lists the commands that ran when entry upto was the last one of the session's history, at most most. A fork has
// none of its ancestors'.
func (s *Store) CommandsAt(ctx context.Context, tenant string, session uuid.UUID, upto int64, most int) ([]Command, error) {
	of, err := s.Session(ctx, tenant, session)
	if err != nil {
		return nil, err
	}
	holder := session
	for _, part := range of.lineage {
		if part.after < upto && upto <= part.upto {
			holder = part.session
		}
	}
	rows, err := ask(ctx, s.query.CommandsAt, statement.CommandsAtParams{SessionID: holder, Upto: upto, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: commands of session %s: %w", session, err)
	}
	var all []Command
	for _, r := range rows {
		body, err := journal.Unmarshal(journal.KindExecStarted, r.Body)
		if err != nil {
			return nil, fmt.Errorf("session %s, entry %d: %w", session, r.Seq, err)
		}
		started := body.GetExecStarted()
		exec, err := uuid.Parse(started.GetExecId())
		if err != nil {
			return nil, fmt.Errorf("session %s, entry %d: %w", session, r.Seq, err)
		}
		all = append(all, Command{Seq: r.Seq, Exec: exec, Call: started.GetCallId()})
	}
	return all, nil
}
