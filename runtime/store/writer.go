package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Bounds of one insert of the writer, and of what waits for it.
const (
	writerQueue    = 4096
	batchSteps     = 1000
	batchBytes     = 4 << 20
	writerPatience = 30 * time.Second
)

// errAlone sends a step to a transaction of its own, where the reason why it was not accepted shows.
var errAlone = errors.New("store: not accepted beside others")

// writer appends the entries of all sessions of a replica over few connections. Each connection inserts whatever waits
// at that moment in one statement; it never waits to fill, so one session alone pays nothing for it.
type writer struct {
	pool  *pgxpool.Pool
	queue chan *pending
}

// pending is a step of entries that waits; answer gets exactly one result.
type pending struct {
	claim  Claim
	after  int64
	async  bool
	rows   []row
	answer chan result
}

type result struct {
	done Committed
	err  error
}

func newWriter(pool *pgxpool.Pool) *writer {
	return &writer{pool: pool, queue: make(chan *pending, writerQueue)}
}

// append waits until the step is in the journal. Its errors are errAlone, and what the connection or the context said.
func (w *writer) append(ctx context.Context, c Claim, step Step, rows []row) (Committed, error) {
	p := &pending{claim: c, after: step.After, async: step.Async, rows: rows, answer: make(chan result, 1)}
	select {
	case w.queue <- p:
	case <-ctx.Done():
		return Committed{}, context.Cause(ctx)
	}
	select {
	case r := <-p.answer:
		return r.done, r.err
	case <-ctx.Done():
		return Committed{}, context.Cause(ctx)
	}
}

// run is one connection's work, until the context ends; what waits then is told.
func (w *writer) run(ctx context.Context) {
	for {
		select {
		case first := <-w.queue:
			w.insert(ctx, w.waiting(first))
		case <-ctx.Done():
			for {
				select {
				case p := <-w.queue:
					p.answer <- result{err: context.Cause(ctx)}
				default:
					return
				}
			}
		}
	}
}

// waiting is the first step and all that wait behind it, up to the bounds.
func (w *writer) waiting(first *pending) []*pending {
	batch := []*pending{first}
	for size := first.size(); len(batch) < batchSteps && size < batchBytes; {
		select {
		case p := <-w.queue:
			batch = append(batch, p)
			size += p.size()
		default:
			return batch
		}
	}
	return batch
}

func (p *pending) size() int {
	n := 0
	for _, r := range p.rows {
		n += len(r.body) + 100
	}
	return n
}

// insert appends a batch and answers each of its steps.
func (w *writer) insert(ctx context.Context, batch []*pending) {
	// What has begun is finished, also while closing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writerPatience)
	defer cancel()
	at, err := w.send(ctx, batch)
	var alone error
	if err != nil {
		// One bad row fails the statement: each is tried alone. A broken connection is everybody's.
		if alone = errAlone; passing(err) {
			alone = err
		}
	}
	for _, p := range batch {
		done := Committed{Entries: entriesOf(p.rows)}
		missing := alone
		for i := range done.Entries {
			e := &done.Entries[i]
			when, in := at[place{e.Session, e.Seq}]
			if !in && missing == nil {
				missing = errAlone
			}
			e.At = when
		}
		if missing != nil {
			done = Committed{}
		}
		p.answer <- result{done: done, err: missing}
	}
}

// place names an entry.
type place struct {
	session uuid.UUID
	seq     int64
}

// send gives the entries that were accepted, with their times.
func (w *writer) send(ctx context.Context, batch []*pending) (map[place]time.Time, error) {
	if len(batch) == 1 && len(batch[0].rows) == 1 && !batch[0].async {
		return w.sendOne(ctx, batch[0])
	}
	arg, async := arguments(batch)
	accepted := make(map[place]time.Time, len(arg.Seqs))
	insert := func(q *statement.Queries) error {
		rows, err := q.Append(ctx, arg)
		for _, r := range rows {
			accepted[place{r.SessionID, r.Seq}] = r.At
		}
		return err
	}
	if !async {
		return accepted, insert(statement.New(w.pool))
	}
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true)"); err != nil {
			return err
		}
		return insert(statement.New(tx))
	})
	return accepted, err
}

func (w *writer) sendOne(ctx context.Context, p *pending) (map[place]time.Time, error) {
	e := p.rows[0].entry
	rows, err := statement.New(w.pool).AppendOne(ctx, statement.AppendOneParams{
		SessionID: e.Session, Owner: p.claim.Executor, Fence: p.claim.Fence, After: p.after, Seq: e.Seq, Kind: int16(e.Kind),
		SubmissionID: orNil(e.Submission), CallID: e.Call, Body: nonNil(p.rows[0].body),
	})
	accepted := map[place]time.Time{}
	for _, r := range rows {
		accepted[place{r.SessionID, r.Seq}] = r.At
	}
	return accepted, err
}

func arguments(batch []*pending) (arg statement.AppendParams, async bool) {
	async = true
	n := 0
	for _, p := range batch {
		n += len(p.rows)
	}
	a := newArrays(n)
	for i, p := range batch {
		async = async && p.async
		arg.Steps, arg.Sessions = append(arg.Steps, int32(i)), append(arg.Sessions, p.claim.Session)
		arg.Owners, arg.Fences = append(arg.Owners, p.claim.Executor), append(arg.Fences, p.claim.Fence)
		arg.Afters = append(arg.Afters, p.after)
		for _, r := range p.rows {
			a.add(r)
			arg.Step, arg.EntryFences = append(arg.Step, int32(i)), append(arg.EntryFences, p.claim.Fence)
			arg.EntrySessions = append(arg.EntrySessions, p.claim.Session)
		}
	}
	arg.Seqs, arg.Kinds, arg.Submissions, arg.Calls, arg.Bodies, arg.Blobs = a.seqs, a.kinds, a.submissions, a.calls, a.bodies, a.blobs
	return arg, async
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
