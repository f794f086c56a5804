//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/align"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Pace of a stream.
const (
	beatEvery = 15 * time.Second
	holdFor   = time.Second
)

// subscriber sends one exec's output to one client: it re-reads the spool's files from the client's
// offsets, so a slow client costs the exec nothing and a second one costs no memory but its own.
type subscriber struct {
	exec    *exec
	out     *outlet
	follow  bool
	readers [2]*reader
}

// reader is a position in one stream.
type reader struct {
	stream *stream
	file   spoolFile
	at     uint64
	held   time.Time // since when the bytes at the end wait for the rest of their sequence
}

// spoolFile is a stream's file, read while a pump writes it, and gives its oldest bytes up.
type spoolFile interface {
	io.ReaderAt
	io.Closer
}

func newSubscriber(e *exec, from *wirev1.Offsets, follow bool, out *outlet) *subscriber {
	s := &subscriber{exec: e, out: out, follow: follow}
	s.readers[0] = &reader{stream: e.out, at: from.GetStdout()}
	s.readers[1] = &reader{stream: e.err, at: from.GetStderr()}
	return s
}

// run sends Started, all output, and the end. It returns nil after Exit or Lost, and, without follow,
// after what was there.
func (s *subscriber) run(ctx context.Context, started *wirev1.Started, interrupt func() (<-chan struct{}, error)) error {
	defer s.close()
	if started != nil {
		if err := s.out.tell(&wirev1.Event{Event: &wirev1.Event_Started{Started: started}}); err != nil {
			return err
		}
	}
	beat := time.NewTimer(beatEvery)
	defer beat.Stop()
	for {
		interrupted, err := interrupt()
		if err != nil {
			return err
		}
		again := s.exec.bell.C()
		exit, lost := s.exec.end()
		final := exit != nil || lost != nil || !s.follow
		sent, hold, err := s.flush(ctx, final)
		if err != nil {
			return err
		}
		if final {
			return s.last(exit, lost)
		}
		if sent {
			beat.Reset(beatEvery)
		}
		if err := s.wait(ctx, again, interrupted, hold, beat); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to do.
func (s *subscriber) wait(ctx context.Context, again, interrupted <-chan struct{}, hold time.Duration, beat *time.Timer) error {
	var release <-chan time.Time
	if hold > 0 {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		release = timer.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-again:
	case <-interrupted:
	case <-release:
	case <-beat.C:
		beat.Reset(beatEvery)
		return s.beat()
	}
	return nil
}

// last ends the stream.
func (s *subscriber) last(exit *wirev1.Exit, lost *wirev1.Lost) error {
	switch {
	case exit != nil:
		return s.out.tell(&wirev1.Event{Event: &wirev1.Event_Exit{Exit: exit}})
	case lost != nil:
		return s.out.tell(&wirev1.Event{Event: &wirev1.Event_Lost{Lost: lost}})
	}
	return s.beat()
}

func (s *subscriber) beat() error {
	return s.out.tell(&wirev1.Event{Event: &wirev1.Event_Beat{Beat: &wirev1.Beat{
		StdoutEnd: s.exec.out.end.Load(), StderrEnd: s.exec.err.end.Load(), State: s.exec.state(),
	}}})
}

// flush sends what is there now, both streams in turn so that neither starves. hold is how long bytes
// wait that may be the beginning of a character; all go when nothing more can come.
func (s *subscriber) flush(ctx context.Context, all bool) (sent bool, hold time.Duration, err error) {
	ends := [2]uint64{s.exec.out.end.Load(), s.exec.err.end.Load()}
	for more := true; more; {
		more = false
		hold = 0
		for i, r := range s.readers {
			if ctx.Err() != nil {
				return sent, 0, context.Cause(ctx)
			}
			n, wait, err := s.piece(ctx, r, ends[i], all)
			if err != nil {
				return sent, 0, err
			}
			more, sent = more || n > 0, sent || n > 0
			if wait > 0 && (hold == 0 || wait < hold) {
				hold = wait
			}
		}
	}
	return sent, hold, nil
}

// piece sends one chunk or gap of one stream, if there is one below end. It returns how far it came.
func (s *subscriber) piece(ctx context.Context, r *reader, end uint64, all bool) (uint64, time.Duration, error) {
	if r.at >= end {
		r.held = time.Time{}
		return 0, 0, nil
	}
	if s.exec.unwanted() {
		// Gone for everybody at once, though its files may lie there until its last pipe is closed.
		return s.gap(r, &spool.Gap{From: r.at, To: end, Reason: wirev1.GapReason_GAP_REASON_COLLECTED})
	}
	gap, until := r.stream.book.At(r.at, end)
	if gap != nil {
		return s.gap(r, gap)
	}
	buf := buffers.take(until - r.at)
	defer buffers.give(buf)
	room := (*buf)[chunkRoom:]
	data, err := r.read(room[:min(uint64(len(room)), until-r.at)])
	if err != nil {
		return 0, 0, err
	}
	// The oldest bytes may have been given up while they were read: what was read of them may be the
	// zeroes of a hole.
	if gap, _ := r.stream.book.At(r.at, end); gap != nil {
		return s.gap(r, gap)
	}
	n := align.Cut(data)
	if n == 0 {
		if left := r.wait(end); left > 0 && !all && until == end {
			return 0, left, nil
		}
		n = len(data)
	}
	r.held = time.Time{}
	if err := s.out.tellChunk(ctx, r.stream.kind, r.at, *buf, n); err != nil {
		return 0, 0, err
	}
	r.at += uint64(n)
	return uint64(n), 0, nil
}

func (s *subscriber) gap(r *reader, g *spool.Gap) (uint64, time.Duration, error) {
	err := s.out.tell(&wirev1.Event{Event: &wirev1.Event_Gap{Gap: &wirev1.Gap{
		Stream: r.stream.kind, From: g.From, To: g.To, Reason: g.Reason,
	}}})
	if err != nil {
		return 0, 0, err
	}
	r.at = g.To
	return g.To - g.From, 0, nil
}

// wait is how much longer the bytes before end are held, which was the end of the stream when it was
// looked at: a stream that has closed since may have grown before.
func (r *reader) wait(end uint64) time.Duration {
	if r.stream.closed.Load() && r.stream.end.Load() == end {
		return 0
	}
	if r.held.IsZero() {
		r.held = time.Now()
	}
	return holdFor - time.Since(r.held)
}

// read fills buf from the reader's position. The bytes are there: the pump told of them.
func (r *reader) read(buf []byte) ([]byte, error) {
	if r.file == nil {
		f, err := spool.OpenFile(r.stream.path, os.O_RDONLY)
		if err != nil {
			return nil, fmt.Errorf("read the spool: %w", err)
		}
		r.file = f
	}
	n, err := r.file.ReadAt(buf, int64(r.at))
	if n == 0 {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read the spool at %d: %w", r.at, err)
	}
	return buf[:n], nil
}

func (s *subscriber) close() {
	for _, r := range s.readers {
		if r.file != nil {
			r.file.Close()
		}
	}
}

// bufferPool lends buffers for reading, with chunkRoom before the data. Fast streams get large ones, but only so many at a time: a
// client that does not read keeps its buffer until it does.
type bufferPool struct {
	small, large sync.Pool
	mu           sync.Mutex
	lent         int
}

const (
	smallBuffer = 16 << 10
	mostLarge   = 16
)

var buffers = &bufferPool{
	small: sync.Pool{New: func() any { b := make([]byte, chunkRoom+smallBuffer); return &b }},
	large: sync.Pool{New: func() any { b := make([]byte, chunkRoom+wire.MaxChunk); return &b }},
}

func (p *bufferPool) take(want uint64) *[]byte {
	p.mu.Lock()
	large := want > smallBuffer && p.lent < mostLarge
	if large {
		p.lent++
	}
	p.mu.Unlock()
	pool := &p.small
	if large {
		pool = &p.large
	}
	b, _ := pool.Get().(*[]byte)
	return b
}

func (p *bufferPool) give(b *[]byte) {
	if len(*b) == chunkRoom+smallBuffer {
		p.small.Put(b)
		return
	}
	p.mu.Lock()
	p.lent--
	p.mu.Unlock()
	p.large.Put(b)
}
