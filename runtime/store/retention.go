package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Turn reports whether it is this caller's turn to do what one replica at a time does, and no more often than that. Who gets
// it must have done it, or given up, before it is due again.
func (s *Store) Turn(ctx context.Context, chore string, every time.Duration) (bool, error) {
	n, err := ask(ctx, s.query.TakeChore, statement.TakeChoreParams{Name: chore, EveryS: every.Seconds()})
	if err != nil {
		return false, fmt.Errorf("store: %s: %w", chore, err)
	}
	return n == 1, nil
}

// Retain deletes idle and closed sessions that nothing has happened to for the given age, at most most, each in a
// transaction of its own; it gives how many. A fork that still reads such a session gets a copy first.
func (s *Store) Retain(ctx context.Context, age time.Duration, most int) (int, error) {
	old, err := ask(ctx, s.query.OldSessions, statement.OldSessionsParams{AgeS: age.Seconds(), Most: int32(most)})
	if err != nil {
		return 0, fmt.Errorf("store: retention: %w", err)
	}
	gone := 0
	for _, id := range old {
		deleted, err := s.retire(ctx, id, age)
		if err != nil {
			return gone, fmt.Errorf("store: delete session %s: %w", id, err)
		}
		if deleted {
			gone++
		}
	}
	return gone, nil
}

func (s *Store) retire(ctx context.Context, id uuid.UUID, age time.Duration) (deleted bool, err error) {
	// Forks first, one transaction each: all of them are younger, so that a fork made meanwhile is found below.
	forks, err := ask(ctx, s.query.Forks, id)
	if err != nil {
		return false, err
	}
	for _, fork := range forks {
		if err := s.transaction(ctx, func(q *statement.Queries) error { return flatten(ctx, q, fork.TenantID, fork.ID) }); err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
	}
	err = s.transaction(ctx, func(q *statement.Queries) error {
		deleted = false
		_, err := q.LockOldSession(ctx, statement.LockOldSessionParams{ID: id, AgeS: age.Seconds()})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // something has happened to it
		}
		if err != nil {
			return err
		}
		// Fork holds its parent's row FOR SHARE, so no fork is being made now.
		if left, err := q.Forks(ctx, id); err != nil || len(left) > 0 {
			return err
		}
		deleted = true
		return remove(ctx, q, id)
	})
	return deleted && err == nil, err
}

// remove deletes everything of a session, children before parents.
func remove(ctx context.Context, q *statement.Queries, id uuid.UUID) error {
	if err := q.FreeSlots(ctx, &id); err != nil {
		return err
	}
	for _, part := range []func(context.Context, uuid.UUID) error{
		q.DeleteOutputOf, q.DeleteCallbacks, q.DeleteExecs, q.DeleteApprovals, q.DeleteEffects, q.DeleteSubmissions, q.DeleteWords, q.DeleteBlobRefs,
		q.DeleteEntries, q.DeleteSession,
	} {
		if err := part(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// DropOutput deletes the output of commands that ended before the given age, of at most most commands; it gives how many
// chunks. What the model was told stays in the journal.
func (s *Store) DropOutput(ctx context.Context, age time.Duration, most int) (int, error) {
	n, err := ask(ctx, s.query.DropOldOutput, statement.DropOldOutputParams{AgeS: age.Seconds(), Most: int32(most)})
	if err != nil {
		return 0, fmt.Errorf("store: drop output: %w", err)
	}
	return int(n), nil
}

// blobGrace is how long a blob may be without a session that refers to it.
const blobGrace = 24 * time.Hour

// Tidy does what keeps the database small and fast, a bounded piece at a time: unused blobs, dead executors, the journal's
// months. Any replica may call it, once a minute.
func (s *Store) Tidy(ctx context.Context) error {
	_, err := ask(ctx, s.query.CollectBlobs, statement.CollectBlobsParams{AgeS: blobGrace.Seconds(), Most: 500})
	_, executors := s.query.ForgetExecutors(ctx)
	months := s.query.MakeMonths(ctx)
	if hasCode(months, "23514") {
		months = nil // the month began in the partition for the rest, and stays there
	}
	_, empty := s.query.DropEmptyMonths(ctx)
	_, callbacks := s.query.DropCallbacks(ctx)
	if err := errors.Join(err, executors, months, empty, callbacks); err != nil {
		return fmt.Errorf("store: tidy: %w", err)
	}
	return nil
}

// Erase puts a redaction in place of an entry, as the law may ask: its bytes are gone from the journal, the index, the
// blobs, the rows that were made of it (a submission's payload, a command's output and what it asked, what cards show), and from the copies that
// forks made. The session's shape stays: seq, call, submission. What was erased stays erased when it is erased again.
// ErrNotErasable: the entry holds nobody's words, and the fold needs it. An owner at work knows what it has read until it gives
// the session up.
func (s *Store) Erase(ctx context.Context, tenant string, session uuid.UUID, seq int64, reason string) error {
	err := s.transaction(ctx, func(q *statement.Queries) error {
		if _, err := found(q.LockSession(ctx, statement.LockSessionParams{ID: session, TenantID: tenant})); err != nil {
			return err
		}
		entry, err := found(q.EntryForErasure(ctx, statement.EntryForErasureParams{SessionID: session, Seq: seq}))
		if err != nil || journal.Kind(entry.Kind) == journal.KindRedaction {
			return err
		}
		if !journal.Erasable(journal.Kind(entry.Kind)) {
			return fmt.Errorf("%w: it is a %s", ErrNotErasable, journal.Kind(entry.Kind))
		}
		if err := eraseRows(ctx, q, session, seq, entry); err != nil {
			return err
		}
		return erase(ctx, q, tenant, session, seq, entry, reason)
	})
	if err != nil {
		return fmt.Errorf("erase entry %d of session %s: %w", seq, session, err)
	}
	return nil
}

// eraseRows takes out of rows what they hold of the entry.
func eraseRows(ctx context.Context, q *statement.Queries, session uuid.UUID, seq int64, entry statement.EntryForErasureRow) error {
	switch journal.Kind(entry.Kind) {
	case journal.KindInputAccepted:
		return q.ErasePayload(ctx, statement.ErasePayloadParams{SubmissionID: orZero(entry.SubmissionID), SessionID: session})
	case journal.KindModelCompleted:
		return q.EraseCards(ctx, statement.EraseCardsParams{SessionID: session, Seq: seq, Kind: entry.Kind})
	case journal.KindApprovalDecided:
		return q.EraseDecision(ctx, statement.EraseDecisionParams{SessionID: session, CallID: entry.CallID})
	case journal.KindToolResult:
		if err := q.EraseCallbacks(ctx, statement.EraseCallbacksParams{SessionID: session, CallID: entry.CallID}); err != nil {
			return err
		}
		return q.EraseOutput(ctx, statement.EraseOutputParams{SessionID: session, CallID: entry.CallID})
	}
	return nil
}

func erase(ctx context.Context, q *statement.Queries, tenant string, session uuid.UUID, seq int64, entry statement.EntryForErasureRow, reason string) error {
	kind, marker, err := journal.Marshal(&journalv1.Body{Body: &journalv1.Body_Redaction{
		Redaction: &journalv1.Redaction{Kind: int32(entry.Kind), Reason: reason},
	}})
	if err != nil {
		return err
	}
	if _, err := q.EraseEntry(ctx, statement.EraseEntryParams{
		MarkerKind: int16(kind), Marker: marker, Seq: seq, Kind: entry.Kind, Body: entry.Body, BlobSha: entry.BlobSha, SessionID: session,
	}); err != nil {
		return err
	}
	if err := q.EraseWords(ctx, statement.EraseWordsParams{Seq: seq, SessionID: session}); err != nil {
		return err
	}
	if len(entry.BlobSha) == 0 {
		return nil
	}
	if err := q.EraseBlobRefs(ctx, statement.EraseBlobRefsParams{TenantID: tenant, Sha: entry.BlobSha, SessionID: session}); err != nil {
		return err
	}
	return q.EraseBlob(ctx, statement.EraseBlobParams{TenantID: tenant, Sha: entry.BlobSha})
}
