package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
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
	done, err := s.persist(ctx, c, step, rows)
	if err != nil {
		c.dropIfFenced(err)
		return Committed{}, fmt.Errorf("commit to session %s after %d: %w", c.Session, step.After, err)
	}
	crashAround("commit.after.", rows, step)
	if len(rows) > 0 {
		s.notifier.Changed(c.Session)
	}
	return done, nil
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
func (s *Store) persist(ctx context.Context, c Claim, step Step, rows []row) (Committed, error) {
	alone := step.changesRows() || step.Terminalize != nil || spills(rows)
	lost := false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		done, err := s.try(ctx, c, step, rows, alone)
		switch {
		case err == nil:
			return done, nil
		case errors.Is(err, errAlone):
			alone = true
			continue
		}
		again := passing(err)
		if lost = lost || !certain(err); lost || hasCode(err, codeUnique) {
			there, readErr := s.readBack(ctx, c, step, rows)
			switch {
			case readErr == nil && there != nil:
				return *there, nil
			case readErr != nil && !passing(readErr):
				return Committed{}, readErr
			case readErr != nil:
				again = true
			}
		}
		if !again {
			return Committed{}, err
		}
		if cause := sleep(ctx, wait); cause != nil {
			return Committed{}, errors.Join(ErrOutcomeUnknown, cause, err)
		}
	}
}

func (s *Store) try(ctx context.Context, c Claim, step Step, rows []row, alone bool) (Committed, error) {
	if !alone {
		return s.writer.append(ctx, c, step, rows)
	}
	done, err := s.commitAlone(ctx, c, step, rows)
	return done, promise(err)
}

func spills(rows []row) bool {
	for _, r := range rows {
		if r.blob != nil {
			return true
		}
	}
	return false
}

// readBack looks whether the step's entries are in the journal, written under the claim's fence with the same bytes. It
// gives nil when they are absent, and ErrFenced when a later owner has written there: the try whose answer was lost was
// not carried out.
func (s *Store) readBack(ctx context.Context, c Claim, step Step, rows []row) (*Committed, error) {
	if len(rows) == 0 {
		return nil, nil // Terminalize may simply come again
	}
	there, err := ask(ctx, s.query.EntriesAt, statement.EntriesAtParams{SessionID: c.Session, After: step.After, Upto: step.seq(len(rows) - 1)})
	if err != nil || len(there) == 0 {
		return nil, err
	}
	if there[0].Fence > c.Fence {
		return nil, ErrFenced
	}
	done := Committed{}
	for i, r := range rows {
		if i >= len(there) || there[i].Seq != r.entry.Seq || there[i].Fence != c.Fence || !sameBody(there[i], r) {
			return nil, ErrCollision
		}
		r.entry.At = there[i].At
		done.Entries = append(done.Entries, r.entry)
	}
	return &done, nil
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
func (s *Store) commitAlone(ctx context.Context, c Claim, step Step, rows []row) (Committed, error) {
	r := &recorder{}
	q := statement.New(r)
	done := Committed{}
	if step.Async {
		r.batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	}
	err := q.Hold(ctx, statement.HoldParams{ID: c.Session, Owner: c.Executor, Fence: c.Fence})
	if err == nil && len(rows) > 0 {
		err = q.NoGap(ctx, statement.NoGapParams{After: step.After, ID: c.Session})
		if err == nil {
			err = keepBlobs(ctx, q, c, rows)
		}
		queueEntries(r, c, rows, &done)
	}
	if err == nil {
		err = step.project(ctx, q, c)
	}
	if err != nil {
		return done, err
	}
	at := s.life.Load()
	if err := s.pool.SendBatch(ctx, &r.batch).Close(); err != nil {
		return Committed{}, err
	}
	if len(rows) > 0 {
		c.tip.set(step.seq(len(rows)-1), at)
	}
	return done, nil
}

func queueEntries(r *recorder, c Claim, rows []row, done *Committed) {
	a := newArrays(len(rows))
	for _, row := range rows {
		a.add(row)
	}
	r.batch.Queue(statement.AppendOwned, c.Session, c.Fence, a.seqs, a.kinds, a.submissions, a.calls, a.bodies, a.blobs).Query(func(answer pgx.Rows) error {
		defer answer.Close()
		done.Entries = entriesOf(rows)
		for answer.Next() {
			var session [16]byte
			var seq int64
			var at time.Time
			if err := answer.Scan(&session, &seq, &at); err != nil {
				return err
			}
			done.Entries[seq-rows[0].entry.Seq].At = at
		}
		return answer.Err()
	})
}

func entriesOf(rows []row) []journal.Entry {
	return each(rows, func(r row) journal.Entry { return r.entry })
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

// arrays are the columns of entries.
type arrays struct {
	seqs        []int64
	kinds       []int16
	submissions []uuid.UUID
	calls       []string
	bodies      [][]byte
	blobs       [][]byte
}

func newArrays(n int) *arrays {
	return &arrays{
		seqs: make([]int64, 0, n), kinds: make([]int16, 0, n), submissions: make([]uuid.UUID, 0, n), calls: make([]string, 0, n),
		bodies: make([][]byte, 0, n), blobs: make([][]byte, 0, n),
	}
}

func (a *arrays) add(r row) {
	a.seqs, a.kinds = append(a.seqs, r.entry.Seq), append(a.kinds, int16(r.entry.Kind))
	a.submissions, a.calls = append(a.submissions, r.entry.Submission), append(a.calls, r.entry.Call)
	a.bodies, a.blobs = append(a.bodies, r.stored()), append(a.blobs, nonNil(r.blob))
}
