package store

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
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

// writer appends the entries of all sessions of a replica over few connections. Each connection inserts its share of
// whatever waits at that moment in one statement; it never waits to fill, so one session alone pays nothing for it.
type writer struct {
	pool    *pgxpool.Pool
	life    *life
	writers int
	queue   chan *pending
	// busy are the steps that are being inserted.
	busy atomic.Int64
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

func newWriter(pool *pgxpool.Pool, life *life, writers int) *writer {
	return &writer{pool: pool, life: life, writers: writers, queue: make(chan *pending, writerQueue)}
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
	args := new(steps)
	for {
		select {
		case first := <-w.queue:
			w.insert(ctx, args, w.waiting(first))
			// Those who were answered come back with what they have next before this looks again: else the fastest of
			// them has a statement of its own, and all the others wait for it.
			runtime.Gosched()
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

// waiting is the first step and those that wait behind it, up to the bounds and to this connection's share of all that
// is under way: one that takes everything leaves the others with nothing to do meanwhile.
func (w *writer) waiting(first *pending) []*pending {
	share := min((int(w.busy.Load())+1+len(w.queue)+w.writers-1)/w.writers, batchSteps)
	batch := make([]*pending, 1, share)
	batch[0] = first
	defer func() { w.busy.Add(int64(len(batch))) }()
	for size := first.size(); len(batch) < share && size < batchBytes; {
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
func (w *writer) insert(ctx context.Context, args *steps, batch []*pending) {
	// What has begun is finished, also while closing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writerPatience)
	defer cancel()
	accepted, at, err := w.send(ctx, args, batch)
	w.busy.Add(-int64(len(batch)))
	var alone error
	if err != nil {
		// One bad row fails the statement: each is tried alone. A broken connection is everybody's.
		if alone = errAlone; passing(err) {
			alone = err
		}
	}
	for _, p := range batch {
		if alone != nil {
			p.answer <- result{err: alone}
			continue
		}
		r := result{done: Committed{Entries: entriesOf(p.rows)}}
		for i := range r.done.Entries {
			// The database gives what it accepted in the order of the batch; a step goes in whole or not at all.
			e := &r.done.Entries[i]
			if len(accepted) == 0 || accepted[0].seq != e.Seq || accepted[0].session != e.Session {
				r = result{err: errAlone}
				break
			}
			e.At, accepted = accepted[0].at, accepted[1:]
		}
		if r.err == nil {
			p.claim.tip.set(p.after+int64(len(p.rows)), at)
		}
		p.answer <- r
	}
}

// accepted is an entry that is in the journal.
type accepted struct {
	session uuid.UUID
	seq     int64
	at      time.Time
}

// send gives the entries that were accepted, and the store's life at which the connection was there.
func (w *writer) send(ctx context.Context, args *steps, batch []*pending) (done []accepted, at int64, err error) {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Release()
	at = w.life.Load()
	first := batch[0]
	switch {
	case !slices.ContainsFunc(batch, func(p *pending) bool { return !p.async }):
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true)"); err != nil {
				return err
			}
			done, err = appendSteps(ctx, tx.Conn(), args, batch, at)
			return err
		})
	case len(batch) == 1 && len(first.rows) == 1 && first.claim.tip.is(first.after, at):
		done, err = appendOne(ctx, statement.New(conn), first)
	default:
		done, err = appendSteps(ctx, conn.Conn(), args, batch, at)
	}
	return done, at, err
}

// appendSteps is statement.Append with parameters that are bytes already.
func appendSteps(ctx context.Context, conn *pgx.Conn, args *steps, batch []*pending, at int64) (done []accepted, err error) {
	prepared, err := conn.Prepare(ctx, "append", statement.Append)
	if err != nil {
		return nil, err
	}
	binaryForm := []int16{pgx.BinaryFormatCode}
	rows := conn.PgConn().ExecStatement(ctx, prepared, args.fill(batch, at), binaryForm, binaryForm)
	done = make([]accepted, 0, args.body.count)
	for rows.NextRow() {
		v := rows.Values()
		done = append(done, accepted{session: uuid.UUID(v[0]), seq: int64(binary.BigEndian.Uint64(v[1])), at: timeOf(v[2])})
	}
	_, err = rows.Close()
	return done, err
}

// timeOf reads the binary form of a timestamptz.
func timeOf(v []byte) time.Time {
	const year2000 = 946_684_800_000_000 // Postgres counts microseconds from there
	return time.UnixMicro(year2000 + int64(binary.BigEndian.Uint64(v)))
}

// appendOne is what a session alone pays: no arrays to unpack.
func appendOne(ctx context.Context, q *statement.Queries, p *pending) (done []accepted, err error) {
	e := p.rows[0].entry
	rows, err := q.AppendOne(ctx, statement.AppendOneParams{
		SessionID: e.Session, Owner: p.claim.Executor, Fence: p.claim.Fence, Seq: e.Seq, Kind: int16(e.Kind),
		SubmissionID: orNil(e.Submission), CallID: e.Call, Body: nonNil(p.rows[0].body),
	})
	for _, r := range rows {
		done = append(done, accepted{session: r.SessionID, seq: r.Seq, at: r.At})
	}
	return done, err
}
