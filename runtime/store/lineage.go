package store

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// segment is the part of a session's history that one session of its lineage holds: entries after..upto.
type segment struct {
	session     uuid.UUID
	after, upto int64
}

// segments are a session's history in order: one an ancestor, then its own, which is open at its end. A flattened fork
// has no ancestor: it holds everything itself.
func segments(row statement.Session) []segment {
	var all []segment
	var after int64
	for i, ancestor := range row.Lineage {
		all = append(all, segment{session: ancestor, after: after, upto: row.LineageUpto[i]})
		after = row.LineageUpto[i]
	}
	return append(all, segment{session: row.ID, after: after, upto: math.MaxInt64})
}

// ranges are the parts of a history after a seq, as statements take them.
type ranges struct {
	sessions      []uuid.UUID
	afters, uptos []int64
}

func (s Session) ranges(after int64) ranges {
	var r ranges
	for _, part := range s.lineage {
		if part.upto > after {
			r.sessions, r.afters, r.uptos = append(r.sessions, part.session), append(r.afters, max(part.after, after)), append(r.uptos, part.upto)
		}
	}
	return r
}

// Load gives the entries of a session's whole history, its ancestors' too, after the given seq, at most most (0: all). An
// *journal.UnknownError or *journal.CorruptError means that this build must leave the session alone.
func (s *Store) Load(ctx context.Context, tenant string, id uuid.UUID, after int64, most int) ([]journal.Entry, error) {
	session, err := s.Session(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	ranges := session.ranges(after)
	arg := statement.LoadEntriesParams{
		TenantID: tenant, Most: math.MaxInt32, Sessions: ranges.sessions, Afters: ranges.afters, Uptos: ranges.uptos,
	}
	if most > 0 {
		arg.Most = int32(min(most, math.MaxInt32))
	}
	rows, err := ask(ctx, s.query.LoadEntries, arg)
	if err != nil {
		return nil, fmt.Errorf("store: load session %s: %w", id, err)
	}
	entries := make([]journal.Entry, 0, len(rows))
	for _, r := range rows {
		e, err := entryOf(r)
		if err != nil {
			return nil, fmt.Errorf("session %s, entry %d: %w", r.SessionID, r.Seq, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func entryOf(r statement.LoadEntriesRow) (journal.Entry, error) {
	if r.Lost {
		return journal.Entry{}, &journal.CorruptError{Kind: journal.Kind(r.Kind), Reason: "its blob is missing"}
	}
	body, err := journal.Unmarshal(journal.Kind(r.Kind), r.Body)
	if err != nil {
		return journal.Entry{}, err
	}
	return journal.Entry{
		Session: r.SessionID, Seq: r.Seq, Fence: r.Fence, Kind: journal.Kind(r.Kind), Submission: orZero(r.SubmissionID),
		Call: r.CallID, At: r.At, Body: body,
	}, nil
}
