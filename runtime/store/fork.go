package store

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// maxLineage is how many ancestors a session may read from; a deeper fork gets a copy.
const maxLineage = 32

// cut is the history up to and with seq.
func cut(all []segment, seq int64) []segment {
	var kept []segment
	for _, s := range all {
		if s.after >= seq {
			break
		}
		s.upto = min(s.upto, seq)
		kept = append(kept, s)
	}
	return kept
}

func ids(all []segment) []uuid.UUID {
	return each(all, func(s segment) uuid.UUID { return s.session })
}

// Fork makes a session whose history is the parent's up to and with seq, then its own, beginning with session_forked. Nothing
// is copied, and nothing but entries is inherited: no exec, slot, approval or credential. The id is the caller's (NewID):
// repeated, the call gives the same session.
func (s *Store) Fork(ctx context.Context, tenant string, parent uuid.UUID, seq int64, id uuid.UUID) (Session, error) {
	kind, body, err := journal.Marshal(&journalv1.Body{Body: &journalv1.Body_SessionForked{
		SessionForked: &journalv1.SessionForked{ParentId: parent.String(), ParentSeq: seq},
	}})
	if err != nil {
		return Session{}, err
	}
	err = s.transaction(ctx, func(q *statement.Queries) error {
		from, err := found(q.ShareSession(ctx, statement.ShareSessionParams{ID: parent, TenantID: tenant}))
		if err != nil {
			return err
		}
		history := cut(segments(from), seq)
		if err := reaches(ctx, q, history, seq); err != nil {
			return err
		}
		if err := insertFork(ctx, q, from, id, seq, history); err != nil {
			return err
		}
		return q.InsertFirstEntry(ctx, statement.InsertFirstEntryParams{SessionID: id, Seq: seq + 1, Kind: int16(kind), Body: body})
	})
	if err != nil && !hasCode(err, codeUnique) {
		return Session{}, fmt.Errorf("fork session %s at %d: %w", parent, seq, err)
	}
	made, err := s.Session(ctx, tenant, id)
	if err == nil && (made.Parent != parent || made.ParentSeq != seq) {
		return Session{}, fmt.Errorf("session %s: %w", id, ErrConflict)
	}
	return made, err
}

// reaches is ErrNotFound when there is no entry at seq to cut after.
func reaches(ctx context.Context, q *statement.Queries, history []segment, seq int64) error {
	if seq > 0 && len(history) > 0 {
		last := history[len(history)-1]
		there, err := q.EntriesAt(ctx, statement.EntriesAtParams{SessionID: last.session, After: seq - 1, Upto: seq})
		if err != nil || len(there) == 1 {
			return err
		}
	}
	return fmt.Errorf("entry %d: %w", seq, ErrNotFound)
}

func insertFork(ctx context.Context, q *statement.Queries, from statement.Session, id uuid.UUID, seq int64, history []segment) error {
	if len(history) <= maxLineage {
		return q.InsertSession(ctx, statement.InsertSessionParams{
			ID: id, TenantID: from.TenantID, Agent: from.Agent, ParentID: &from.ID, BaseSeq: seq,
			Lineage: ids(history), LineageUpto: each(history, func(s segment) int64 { return s.upto }),
		})
	}
	if err := q.InsertFlatSession(ctx, statement.InsertFlatSessionParams{
		ID: id, TenantID: from.TenantID, Agent: from.Agent, ParentID: &from.ID, BaseSeq: seq, CopiedFrom: append(ids(history), from.CopiedFrom...),
	}); err != nil {
		return err
	}
	return copyInto(ctx, q, id, from.TenantID, history)
}

func copyInto(ctx context.Context, q *statement.Queries, id uuid.UUID, tenant string, history []segment) error {
	if err := q.CopyEntries(ctx, statement.CopyEntriesParams{
		IntoSession: id, Sessions: ids(history),
		Afters: each(history, func(s segment) int64 { return s.after }), Uptos: each(history, func(s segment) int64 { return s.upto }),
	}); err != nil {
		return err
	}
	return q.ReferCopied(ctx, statement.ReferCopiedParams{TenantID: tenant, SessionID: id})
}

// flatten gives a fork its own copy of what it reads of its ancestors. The parent named in its first entry stays.
func flatten(ctx context.Context, q *statement.Queries, tenant string, id uuid.UUID) error {
	row, err := found(q.LockSession(ctx, statement.LockSessionParams{ID: id, TenantID: tenant}))
	if err != nil {
		return err
	}
	var inherited []segment
	for _, part := range segments(row) {
		if part.upto != math.MaxInt64 {
			inherited = append(inherited, part)
		}
	}
	if len(inherited) == 0 {
		return nil
	}
	if err := copyInto(ctx, q, id, tenant, inherited); err != nil {
		return err
	}
	return q.FlattenSession(ctx, id)
}
