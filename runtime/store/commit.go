package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Commit carries out a step, or nothing of it. It returns when the step is durable, and goes on trying while the
// database is away, until the context ends. A claim's steps are committed one after the other.
//
// Errors to branch on: ErrFenced, ErrLapsed, ErrNotStarted, ErrNoSlot, ErrGap, ErrCollision, *StateError, and
// ErrOutcomeUnknown when the context ended at a moment at which the step may have been committed. After the first, a
// new claim is the only way on.
func (s *Store) Commit(ctx context.Context, c Claim, step Step) (Committed, error) {
	rows, err := step.prepare(c)
	if err != nil {
		return Committed{}, err
	}
	if len(step.Start) > 0 && !c.Trusted() {
		return Committed{}, ErrLapsed
	}
	crashAround("commit.before.", rows, step)
	if err := s.persist(ctx, c, step, rows); err != nil {
		c.dropIfFenced(err)
		return Committed{}, fmt.Errorf("commit to session %s after %d: %w", c.Session, step.After, err)
	}
	crashAround("commit.after.", rows, step)
	if len(rows) > 0 {
		s.notifier.Changed(c.Session)
	}
	return Committed{Entries: each(rows, func(r row) journal.Entry { return r.entry })}, nil
}

func crashAround(when string, rows []row, step Step) {
	if !crashpoint.On {
		return
	}
	for _, r := range rows {
		crashpoint.Hit(when + r.entry.Kind.String())
	}
	if step.Terminalize != nil {
		crashpoint.Hit(when + "terminalize")
	}
}

// persist tries until the step is in, cannot be, or the context ends. Once an answer was lost it looks, before each
// further try, whether an earlier one was carried out.
func (s *Store) persist(ctx context.Context, c Claim, step Step, rows []row) error {
	alone := step.changesRows() || step.Terminalize != nil || spills(rows)
	lost := false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := s.try(ctx, c, step, rows, alone)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAlone):
			alone = true
			continue
		}
		again := passing(err)
		if lost = lost || !certain(err); lost || hasCode(err, codeUnique) {
			there, readErr := s.readBack(ctx, c, step, rows)
			switch {
			case there:
				return nil
			case readErr != nil && (passing(readErr) || ctx.Err() != nil):
				again = true // the context's cause is no answer
			case readErr != nil:
				return readErr
			}
		}
		if !again {
			return err
		}
		if cause := sleep(ctx, wait); cause != nil {
			return errors.Join(ErrOutcomeUnknown, cause, err)
		}
	}
}

func (s *Store) try(ctx context.Context, c Claim, step Step, rows []row, alone bool) error {
	if alone {
		return promise(s.commitAlone(ctx, c, step, rows))
	}
	return s.writer.append(ctx, c, step, rows)
}

func spills(rows []row) bool {
	for _, r := range rows {
		if r.blob != nil {
			return true
		}
	}
	return false
}

// readBack says whether the step's entries are in the journal, written under the claim's fence with the same bytes. It
// gives ErrFenced when a later owner has written there: the try whose answer was lost was not carried out.
func (s *Store) readBack(ctx context.Context, c Claim, step Step, rows []row) (bool, error) {
	if len(rows) == 0 {
		return false, nil // Terminalize may simply come again
	}
	there, err := ask(ctx, s.query.EntriesAt, statement.EntriesAtParams{SessionID: c.Session, After: step.After, Upto: step.seq(len(rows) - 1)})
	if err != nil || len(there) == 0 {
		return false, err
	}
	if there[0].Fence > c.Fence {
		return false, ErrFenced
	}
	for i, r := range rows {
		if i >= len(there) || there[i].Seq != r.entry.Seq || there[i].Fence != c.Fence || !sameBody(there[i], r) {
			return false, ErrCollision
		}
	}
	return true, nil
}

func sameBody(there statement.EntriesAtRow, r row) bool {
	if there.Kind != int16(r.entry.Kind) {
		return false
	}
	if len(there.BlobSha) > 0 || r.blob != nil {
		return bytes.Equal(there.BlobSha, r.blob)
	}
	return sha256.Sum256(there.Body) == sha256.Sum256(r.body)
}

// recorder lets the generated queries fill a batch, whose statements then make one transaction in one round trip.
type recorder struct{ batch pgx.Batch }

var errRecorded = errors.New("store: a batch has no rows to give")

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	r.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query and QueryRow make up the generated code's interface; no query that a batch uses calls them.
func (r *recorder) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errRecorded
}

func (r *recorder) QueryRow(context.Context, string, ...any) pgx.Row { return nil }

// commitAlone carries out a step in a transaction of its own. The entries come before the rows: when an earlier try is
// still under way in the database, their key is what this one waits for.
func (s *Store) commitAlone(ctx context.Context, c Claim, step Step, rows []row) error {
	r := &recorder{}
	q := statement.New(r)
	if step.Async {
		r.batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	}
	err := q.Hold(ctx, statement.HoldParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence})
	if err == nil && len(rows) > 0 {
		err = q.NoGap(ctx, statement.NoGapParams{After: step.After, ID: c.Session})
		if err == nil {
			err = keepBlobs(ctx, q, c, rows)
		}
		if err == nil {
			err = q.AppendOwned(ctx, owned(c, rows))
		}
	}
	if err == nil {
		err = step.project(ctx, q, c)
	}
	if err != nil {
		return err
	}
	at := s.life.Load()
	if err := s.pool.SendBatch(ctx, &r.batch).Close(); err != nil {
		return err
	}
	if len(rows) > 0 {
		c.tip.set(step.seq(len(rows)-1), at)
	}
	return nil
}

func keepBlobs(ctx context.Context, q *statement.Queries, c Claim, rows []row) error {
	var blobs statement.StoreBlobsParams
	var refs statement.ReferBlobsParams
	for _, r := range rows {
		if r.blob == nil {
			continue
		}
		blobs.Tenants, blobs.Shas = append(blobs.Tenants, c.Tenant), append(blobs.Shas, r.blob)
		blobs.MediaTypes, blobs.Datas = append(blobs.MediaTypes, ""), append(blobs.Datas, r.body)
		refs.Tenants, refs.Shas, refs.Sessions = append(refs.Tenants, c.Tenant), append(refs.Shas, r.blob), append(refs.Sessions, c.Session)
	}
	if len(blobs.Shas) == 0 {
		return nil
	}
	if err := q.StoreBlobs(ctx, blobs); err != nil {
		return err
	}
	return q.ReferBlobs(ctx, refs)
}

// owned are the parameters of statement.AppendOwned.
func owned(c Claim, rows []row) statement.AppendOwnedParams {
	p := statement.AppendOwnedParams{SessionID: c.Session, Fence: c.Fence}
	for _, r := range rows {
		p.Seqs, p.Kinds = append(p.Seqs, r.entry.Seq), append(p.Kinds, int16(r.entry.Kind))
		p.Submissions, p.Calls = append(p.Submissions, r.entry.Submission), append(p.Calls, r.entry.Call)
		p.Bodies, p.Blobs = append(p.Bodies, r.stored()), append(p.Blobs, nonNil(r.blob))
	}
	return p
}
