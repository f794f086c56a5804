package driver

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const (
	// outputEvery and outputBytes bound how long output stays here before it is stored.
	outputEvery = 100 * time.Millisecond
	outputBytes = 64 << 10
)

// output brings a command's output into the store: masked, by raw offsets, so that after any chunk another owner can go
// on. What the redactor holds back is not counted as stored.
type output struct {
	session *session
	ctx     context.Context //nolint:containedctx // the call's; take has none
	exec    uuid.UUID
	// from is where what is stored ends, when this owner began.
	from sandbox.Offsets
	mask *secrets.Redactor

	mu      sync.Mutex
	streams map[sandbox.Stream]*secrets.Stream
	waiting []store.Chunk
	size    int
	// failed is why nothing can be stored any more.
	failed error
	// dirty has a token when something waits.
	dirty  chan struct{}
	closed chan struct{}
	ended  sync.WaitGroup
}

// newOutput goes on where the stored output ends. For a call without a command it takes nothing.
func (s *session) newOutput(ctx context.Context, j job) (*output, error) {
	o := &output{
		session: s, ctx: ctx, mask: j.mask, streams: map[sandbox.Stream]*secrets.Stream{},
		dirty: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if j.exec.ID == "" {
		return o, nil
	}
	var err error
	if o.exec, err = uuid.Parse(j.exec.ID); err != nil {
		return nil, err
	}
	ends := store.Ends{}
	if j.again {
		if ends, err = s.options.Store.OutputEnds(ctx, o.exec); err != nil {
			return nil, err
		}
	}
	o.from = sandbox.Offsets{Stdout: ends.Stdout, Stderr: ends.Stderr}
	for stream, end := range map[sandbox.Stream]int64{sandbox.Stdout: ends.Stdout, sandbox.Stderr: ends.Stderr} {
		last, err := o.last(stream, end)
		if err != nil {
			return nil, err
		}
		o.streams[stream] = j.mask.Resume(end, last)
	}
	o.ended.Go(o.flushing)
	return o, nil
}

// last is the masked text before an end, nothing where that is a gap: whether a secret begins there, or goes on, depends on it.
func (o *output) last(stream sandbox.Stream, end int64) ([]byte, error) {
	if end == 0 {
		return nil, nil
	}
	chunks, err := o.session.options.Store.ReadOutput(o.ctx, o.session.claim.Tenant, o.exec, store.Stream(stream), end-1, 1)
	if err != nil || len(chunks) == 0 {
		return nil, err
	}
	return chunks[0].Data, nil
}

// take is the sink of a command. It holds the command's follower up while the store is behind, never the command.
func (o *output) take(piece sandbox.Output) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	stream := o.streams[piece.Stream]
	if stream == nil || o.failed != nil {
		return o.failed
	}
	if piece.Missing > 0 {
		o.add(piece.Stream, stream.Cut())
		o.add(piece.Stream, secrets.Chunk{Offset: piece.Offset, RawLen: int(piece.Missing)})
		o.streams[piece.Stream] = o.mask.AfterGap(piece.Offset + piece.Missing)
	} else {
		o.add(piece.Stream, stream.Write(piece.Data))
	}
	if o.size >= outputBytes {
		o.flush()
	} else if len(o.waiting) > 0 {
		select {
		case o.dirty <- struct{}{}:
		default:
		}
	}
	return o.failed
}

func (o *output) add(stream sandbox.Stream, chunk secrets.Chunk) {
	if chunk.RawLen == 0 {
		return
	}
	o.size += len(chunk.Data) + 64
	if n := len(o.waiting); n > 0 {
		// One row for what comes in many small pieces.
		before := &o.waiting[n-1]
		if before.Stream == store.Stream(stream) && len(before.Data) > 0 && len(chunk.Data) > 0 && before.Off+before.RawLen == chunk.Offset {
			before.RawLen += int64(chunk.RawLen)
			before.Data = append(before.Data, chunk.Data...)
			return
		}
	}
	o.waiting = append(o.waiting, store.Chunk{
		Exec: o.exec, Stream: store.Stream(stream), Off: chunk.Offset, RawLen: int64(chunk.RawLen), Data: chunk.Data,
	})
}

// flush stores what waits, under mu: chunks must not overtake each other.
func (o *output) flush() {
	if len(o.waiting) == 0 || o.failed != nil {
		return
	}
	o.failed = o.session.options.Store.AppendOutput(o.ctx, o.session.claim, o.waiting)
	o.waiting, o.size = nil, 0
}

// flushing stores what a slow command wrote, soon.
func (o *output) flushing() {
	for {
		select {
		case <-o.dirty:
		case <-o.closed:
			return
		}
		timer := time.NewTimer(outputEvery)
		select {
		case <-timer.C:
		case <-o.closed:
			timer.Stop()
			return
		}
		o.mu.Lock()
		o.flush()
		o.mu.Unlock()
	}
}

// close stores the rest, and tells what kept output from being stored. Nothing more may come. rest gives what the redactor held
// back of a command that has ended; it is nil for another one, whose next follower gets that again.
func (o *output) close(rest func(*secrets.Stream) secrets.Chunk) error {
	close(o.closed)
	o.ended.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, stream := range []sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		if held := o.streams[stream]; held != nil && rest != nil {
			o.add(stream, rest(held))
		}
	}
	o.flush()
	return o.failed
}
