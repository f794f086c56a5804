package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Hit is an entry in which words were found.
type Hit struct {
	// Session that holds the entry: of a fork's inherited entries, the ancestor.
	Session uuid.UUID
	Seq     int64
	Kind    journal.Kind
	Score   float64
	Excerpt string
}

// Search finds a tenant's entries by words, "phrases", or, and -not, the best of the 500 newest matches first, at most most.
// Words are found a moment after they were written: an index follows the journal.
func (s *Store) Search(ctx context.Context, tenant, query string, most int) ([]Hit, error) {
	rows, err := ask(ctx, s.query.Search, statement.SearchParams{Query: searchable(query), TenantID: tenant, Most: int32(most)})
	if err != nil {
		return nil, fmt.Errorf("store: search: %w", err)
	}
	return each(rows, func(r statement.SearchRow) Hit {
		return Hit{Session: r.SessionID, Seq: r.Seq, Kind: journal.Kind(r.Kind), Score: float64(r.Score), Excerpt: r.Excerpt}
	}), nil
}

// indexBatch is how many entries of a session are indexed in one transaction.
const indexBatch = 200

// Index brings the search index of at most most sessions forward; it gives how many entries it read. The
// position is kept for each session: one for all of them would skip entries, since commits do not come in the order of any number.
// Any replica may call it, every second or so.
func (s *Store) Index(ctx context.Context, most int) (int, error) {
	due, err := ask(ctx, s.query.IndexDue, int32(most))
	if err != nil {
		return 0, fmt.Errorf("store: index: %w", err)
	}
	total := 0
	for _, session := range due {
		n, err := s.indexSession(ctx, session)
		if err != nil {
			return total, fmt.Errorf("store: index session %s: %w", session.ID, err)
		}
		total += n
	}
	return total, nil
}

func (s *Store) indexSession(ctx context.Context, session statement.IndexDueRow) (int, error) {
	read := 0
	err := s.transaction(ctx, func(q *statement.Queries) error {
		read = 0
		if mine, err := q.TryIndexing(ctx, session.ID.String()); err != nil || !mine {
			return err
		}
		entries, err := q.EntriesToIndex(ctx, statement.EntriesToIndexParams{
			TenantID: session.TenantID, SessionID: session.ID, After: session.IndexedSeq, Most: indexBatch,
		})
		if err != nil {
			return err
		}
		read = len(entries)
		add := statement.AddWordsParams{TenantID: session.TenantID, SessionID: session.ID}
		upto := session.IndexedSeq
		for _, e := range entries {
			upto = e.Seq
			if words := wordsOf(journal.Kind(e.Kind), e.Body); words != "" {
				add.Seqs, add.Kinds, add.Words = append(add.Seqs, e.Seq), append(add.Kinds, e.Kind), append(add.Words, words)
			}
		}
		if len(add.Seqs) > 0 {
			if err := q.AddWords(ctx, add); err != nil {
				return err
			}
		}
		return q.Indexed(ctx, statement.IndexedParams{Seq: upto, ReachedHead: read < indexBatch, Fence: session.Fence, ID: session.ID})
	})
	return read, err
}
