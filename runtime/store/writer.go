package store

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Bounds of one insert of the writer.
const (
	batchSteps     = 1000
	batchBytes     = 4 << 20
	writerPatience = 30 * time.Second
)

// errAlone sends a step to a transaction of its own, where the reason why it was not accepted shows.
var errAlone = errors.New("store: not accepted beside others")

// writer appends the entries of all sessions of a replica over few connections, its lanes. A step that comes while
// nothing is under way is inserted by its own goroutine: one session alone pays for no hand-over. What comes while all
// lanes are taken waits, and goes in together with what waits beside it; a lane never waits to be filled.
type writer struct {
	pool *pgxpool.Pool
	life *life
	// lanes is how many statements may be under way.
	lanes int
	// serving counts the goroutines of lanes that serve what waits.
	serving *sync.WaitGroup

	mu sync.Mutex
	// closed is why nothing is taken any more.
	closed error
	// idle are lanes that nobody uses; while there is one, nothing waits.
	idle []*lane
	// waiting are at most as many as there are sessions at work: each commits one step at a time.
	waiting []*pending
	// busy are the steps that are being inserted.
	busy int
}

// lane is the right to one statement at a time, and memory for its parameters.
type lane struct{ args steps }

// pending is a step of entries that waits; answer gets exactly one, nil when the step is in the journal.
type pending struct {
	claim  Claim
	after  int64
	async  bool
	rows   []row
	answer chan error
}

func newWriter(pool *pgxpool.Pool, life *life, lanes int, serving *sync.WaitGroup) *writer {
	w := &writer{pool: pool, life: life, lanes: lanes, serving: serving}
	for range lanes {
		w.idle = append(w.idle, new(lane))
	}
	return w
}

// append waits until the step is in the journal. Its errors are errAlone, and what the connection or the context said.
func (w *writer) append(ctx context.Context, c Claim, step Step, rows []row) error {
	p := &pending{claim: c, after: step.After, async: step.Async, rows: rows, answer: make(chan error, 1)}
	l, sole, err := w.enter(p)
	if err != nil {
		return err
	}
	if l != nil {
		w.insert(ctx, l, []*pending{p}, sole)
		w.leave(ctx, l)
		return <-p.answer
	}
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		if w.withdraw(p) {
			return context.Cause(ctx)
		}
		return errors.Join(ErrOutcomeUnknown, context.Cause(ctx))
	}
}

// withdraw takes back a step that still waits.
func (w *writer) withdraw(p *pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.waiting, p)
	if at < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	return true
}

// enter gives a lane to insert the step over, or lets it wait when all are taken. sole says that no other is under way.
func (w *writer) enter(p *pending) (l *lane, sole bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return nil, false, w.closed
	}
	last := len(w.idle) - 1
	if last < 0 {
		w.waiting = append(w.waiting, p)
		return nil, false, nil
	}
	l, w.idle = w.idle[last], w.idle[:last]
	sole = w.busy == 0
	w.busy++
	return l, sole, nil
}

// leave gives back a lane that has inserted one step. What waits is not for its user to serve.
func (w *writer) leave(ctx context.Context, l *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if batch := w.next(l, 1); batch != nil {
		w.serving.Go(func() { w.serve(context.WithoutCancel(ctx), l, batch) })
	}
}

// serve inserts until nothing waits. What has begun is finished, also while closing: ctx does not end.
func (w *writer) serve(ctx context.Context, l *lane, batch []*pending) {
	for batch != nil {
		w.insert(ctx, l, batch, false)
		// Those who were answered come back with what they have next before this looks again: else the fastest of
		// them has a statement of its own, and all the others wait for it.
		runtime.Gosched()
		w.mu.Lock()
		batch = w.next(l, len(batch))
		w.mu.Unlock()
	}
}

// next is what a lane inserts after so many steps; when nothing waits, the lane is idle. The caller holds mu.
func (w *writer) next(l *lane, steps int) []*pending {
	w.busy -= steps
	if len(w.waiting) == 0 {
		w.idle = append(w.idle, l)
		return nil
	}
	return w.share()
}

// share takes what waits, up to the bounds and to one lane's part of all that is under way: one that takes everything
// leaves the others with nothing to do meanwhile.
func (w *writer) share() []*pending {
	most := min((w.busy+len(w.waiting)+w.lanes-1)/w.lanes, batchSteps, len(w.waiting))
	n := 0
	for size := 0; n < most && (n == 0 || size < batchBytes); n++ {
		size += w.waiting[n].size()
	}
	batch := slices.Clone(w.waiting[:n])
	w.waiting = slices.Delete(w.waiting, 0, n)
	w.busy += n
	return batch
}

// close refuses what comes, and what waits.
func (w *writer) close(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = why
	for _, p := range w.waiting {
		p.answer <- why
	}
	w.waiting = nil
}

func (p *pending) size() int {
	n := 0
	for _, r := range p.rows {
		n += len(r.body) + 100
	}
	return n
}

// insert appends a batch and answers each of its steps.
func (w *writer) insert(ctx context.Context, l *lane, batch []*pending, sole bool) {
	accepted, at, err := w.send(ctx, l, batch, sole)
	if err != nil && !passing(err) {
		err = errAlone // one bad row fails the statement; a broken connection is everybody's
	}
	for i, p := range batch {
		switch {
		case err != nil:
			p.answer <- err
		case !accepted[i]:
			p.answer <- errAlone
		default:
			p.claim.tip.set(p.after+int64(len(p.rows)), at)
			p.answer <- nil
		}
	}
}

// send says of each step whether it was accepted, and the store's life at which the connection was there.
func (w *writer) send(ctx context.Context, l *lane, batch []*pending, sole bool) (accepted []bool, at int64, err error) {
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Release()
	ctx, over := expect(ctx, conn.Conn().PgConn().Conn(), writerPatience, sole)
	defer over()
	at = w.life.Load()
	first := batch[0]
	switch {
	case !slices.ContainsFunc(batch, func(p *pending) bool { return !p.async }):
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true)"); err != nil {
				return err
			}
			accepted, err = appendSteps(ctx, tx.Conn(), &l.args, batch, at)
			return err
		})
	case len(batch) == 1 && len(first.rows) == 1 && first.claim.tip.is(first.after, at):
		accepted, err = appendOne(ctx, conn.Conn(), first)
	default:
		accepted, err = appendSteps(ctx, conn.Conn(), &l.args, batch, at)
	}
	return accepted, at, err
}

// binaryForm is that of all parameters and columns of a statement.
var binaryForm = []int16{pgx.BinaryFormatCode}

// appendSteps is statement.Append with parameters that are bytes already.
func appendSteps(ctx context.Context, conn *pgx.Conn, args *steps, batch []*pending, at int64) (accepted []bool, err error) {
	prepared, err := conn.Prepare(ctx, "append", statement.Append)
	if err != nil {
		return nil, err
	}
	rows := conn.PgConn().ExecStatement(ctx, prepared, args.fill(batch, at), binaryForm, binaryForm)
	accepted = make([]bool, len(batch))
	for there := 0; rows.NextRow(); {
		// The entries come in the order of the batch; a step goes in whole or not at all.
		session, seq := uuid.UUID(rows.Values()[0]), int64(binary.BigEndian.Uint64(rows.Values()[1]))
		for there < len(batch) && (batch[there].claim.Session != session || seq > batch[there].rows[len(batch[there].rows)-1].entry.Seq) {
			there++
		}
		if there < len(batch) {
			accepted[there] = true
		}
	}
	_, err = rows.Close()
	return accepted, err
}

// appendOne is what a session alone pays: no arrays to unpack, and nothing asked back.
func appendOne(ctx context.Context, conn *pgx.Conn, p *pending) (accepted []bool, err error) {
	prepared, err := conn.Prepare(ctx, "append one", statement.AppendOne)
	if err != nil {
		return nil, err
	}
	e, number := p.rows[0].entry, binary.BigEndian
	var submission, call []byte
	if e.Submission != uuid.Nil {
		submission = e.Submission[:]
	}
	if e.Call != "" {
		call = []byte(e.Call)
	}
	tag, err := conn.PgConn().ExecStatement(ctx, prepared, [][]byte{
		number.AppendUint64(nil, uint64(e.Seq)), number.AppendUint64(nil, uint64(p.claim.Fence)), number.AppendUint16(nil, uint16(e.Kind)),
		submission, call, p.rows[0].body, e.Session[:], p.claim.Executor[:],
	}, binaryForm, nil).Close()
	return []bool{tag.RowsAffected() == 1}, err
}
