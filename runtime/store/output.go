package store

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// Stream is one of a command's outputs.
type Stream int16

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Chunk is a piece of a command's output.
type Chunk struct {
	Exec   uuid.UUID
	Stream Stream
	// Off and RawLen count bytes of the machine's spool. Data may differ in length: secrets are masked in it.
	Off    int64
	RawLen int64
	Data   []byte
}

// Ends are the offsets up to which each stream is stored.
type Ends struct{ Stdout, Stderr int64 }

const (
	outputQueue = 1024
	outputBytes = 4 << 20
)

// output stores chunks. All chunks of one exec go through one lane, which stores one batch after the other: the
// commits are asynchronous, and only their order makes what a crash of the database leaves a prefix.
type output struct {
	pool  *pgxpool.Pool
	lanes []chan *chunks
}

type chunks struct {
	claim  Claim
	list   []Chunk
	answer chan error
}

func newOutput(pool *pgxpool.Pool, lanes int) *output {
	o := &output{pool: pool}
	for range lanes {
		o.lanes = append(o.lanes, make(chan *chunks, outputQueue))
	}
	return o
}

// AppendOutput stores output of the claim's commands, in the order given. It is not durable when it returns, but what a
// crash of the database leaves has no hole: the machine's spool has the rest. ErrFenced is for the whole call.
func (s *Store) AppendOutput(ctx context.Context, c Claim, list []Chunk) error {
	byLane := map[int][]Chunk{}
	for _, chunk := range list {
		lane := int(chunk.Exec[15]) % len(s.output.lanes)
		byLane[lane] = append(byLane[lane], chunk)
	}
	for lane, part := range byLane {
		p := &chunks{claim: c, list: part, answer: make(chan error, 1)}
		select {
		case s.output.lanes[lane] <- p:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case err := <-p.answer:
			if err != nil {
				return fmt.Errorf("output of session %s: %w", c.Session, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	crashpoint.Hit("output.after")
	s.notifier.Changed(c.Session)
	return nil
}

func (o *output) run(ctx context.Context, lane chan *chunks) {
	var first *chunks
	for {
		if first == nil {
			select {
			case first = <-lane:
			case <-ctx.Done():
				refuse(lane, context.Cause(ctx))
				return
			}
		}
		var batch []*chunks
		batch, first = waitingChunks(first, lane)
		o.store(ctx, batch)
		if first != nil && ctx.Err() != nil {
			first.answer <- context.Cause(ctx)
			first = nil
		}
	}
}

func refuse(lane chan *chunks, cause error) {
	for {
		select {
		case p := <-lane:
			p.answer <- cause
		default:
			return
		}
	}
}

// waitingChunks gives what waits as one batch, in which an exec has one fence: the statement binds a fence to an exec, not to
// a chunk. A list that comes under another claim of the same session is the first of the next batch.
func waitingChunks(first *chunks, lane chan *chunks) (batch []*chunks, next *chunks) {
	batch = []*chunks{first}
	fences := map[uuid.UUID]int64{}
	first.fence(fences)
	for size := first.size(); size < outputBytes; {
		select {
		case p := <-lane:
			if !p.fence(fences) {
				return batch, p
			}
			batch = append(batch, p)
			size += p.size()
		default:
			return batch, nil
		}
	}
	return batch, nil
}

// fence notes the claim's fence for each exec, and says whether that was the one of all before.
func (p *chunks) fence(fences map[uuid.UUID]int64) bool {
	for _, c := range p.list {
		if fence, there := fences[c.Exec]; there && fence != p.claim.Fence {
			return false
		}
		fences[c.Exec] = p.claim.Fence
	}
	return true
}

func (p *chunks) size() int {
	n := 0
	for _, c := range p.list {
		n += len(c.Data) + 64
	}
	return n
}

// store writes a batch, again and again while the database is away: a later chunk must not overtake it.
func (o *output) store(ctx context.Context, batch []*chunks) {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		owned, err := o.send(ctx, batch)
		if err != nil && passing(err) {
			if err = sleep(ctx, wait); err == nil {
				continue
			}
		}
		for _, p := range batch {
			p.answer <- p.outcome(owned, err)
		}
		return
	}
}

func (p *chunks) outcome(owned map[uuid.UUID]bool, err error) error {
	if err != nil {
		return err
	}
	for _, c := range p.list {
		if !owned[c.Exec] {
			return ErrFenced
		}
	}
	return nil
}

func (o *output) send(ctx context.Context, batch []*chunks) (map[uuid.UUID]bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writerPatience)
	defer cancel()
	var arg statement.AppendOutputParams
	seen := map[uuid.UUID]bool{}
	for _, p := range batch {
		for _, c := range p.list {
			if !seen[c.Exec] {
				seen[c.Exec] = true
				arg.Execs, arg.Owners, arg.Fences = append(arg.Execs, c.Exec), append(arg.Owners, p.claim.Executor), append(arg.Fences, p.claim.Fence)
			}
			arg.Exec, arg.Streams = append(arg.Exec, c.Exec), append(arg.Streams, int16(c.Stream))
			arg.Offs, arg.RawLens, arg.Datas = append(arg.Offs, c.Off), append(arg.RawLens, c.RawLen), append(arg.Datas, nonNil(c.Data))
		}
	}
	owned := map[uuid.UUID]bool{}
	err := pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true)"); err != nil {
			return err
		}
		ids, err := statement.New(tx).AppendOutput(ctx, arg)
		for _, id := range ids {
			owned[id] = true
		}
		return err
	})
	return owned, err
}

// OutputEnds gives where a command's stored output ends: attach to the machine from there. Read it after the claim, so
// that nobody else can move it.
func (s *Store) OutputEnds(ctx context.Context, exec uuid.UUID) (Ends, error) {
	rows, err := ask(ctx, s.query.OutputEnds, exec)
	if err != nil {
		return Ends{}, fmt.Errorf("store: output of exec %s: %w", exec, err)
	}
	var ends Ends
	for _, r := range rows {
		switch Stream(r.Stream) {
		case Stdout:
			ends.Stdout = r.Ends
		case Stderr:
			ends.Stderr = r.Ends
		}
	}
	return ends, nil
}

// ReadOutput gives the stored chunks of a tenant's command that reach past from, in order, at most most.
func (s *Store) ReadOutput(ctx context.Context, tenant string, exec uuid.UUID, stream Stream, from int64, most int) ([]Chunk, error) {
	rows, err := ask(ctx, s.query.ReadOutput, statement.ReadOutputParams{
		ExecID: exec, TenantID: tenant, Stream: int16(stream), FromOff: from, Most: int32(most),
	})
	if err != nil {
		return nil, fmt.Errorf("store: output of exec %s: %w", exec, err)
	}
	return each(rows, func(r statement.ReadOutputRow) Chunk {
		return Chunk{Exec: exec, Stream: Stream(r.Stream), Off: r.Off, RawLen: r.RawLen, Data: r.Data}
	}), nil
}
