package local

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	mostPiece = 256 << 10
	// holdFor is how long the beginning of a character waits for its rest.
	holdFor = time.Second
)

// follower hands one command's output to one taker. It reads the tapes at its own pace: a taker that waits
// holds up nobody else.
type follower struct {
	command *command
	take    func(sandbox.Output) error
	buf     []byte
	readers [2]reader
}

// reader is a position in one stream.
type reader struct {
	stream sandbox.Stream
	tape   *tape
	at     int64
	held   time.Time // since when bytes at the end wait for the rest of a character
}

func (c *command) follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	c.followers.Add(1)
	defer c.followers.Add(-1)
	f := &follower{command: c, take: take, buf: make([]byte, mostPiece)}
	f.readers[0] = reader{stream: sandbox.Stdout, tape: c.out, at: max(0, from.Stdout)}
	f.readers[1] = reader{stream: sandbox.Stderr, tape: c.err, at: max(0, from.Stderr)}
	for {
		again := c.bell.C()
		exit := c.result()
		hold, err := f.flush(ctx, exit != nil)
		if err != nil {
			return sandbox.Exit{ID: c.id}, err
		}
		if exit != nil {
			return *exit, nil
		}
		var release <-chan time.Time
		if hold > 0 {
			release = time.After(hold)
		}
		select {
		case <-again:
		case <-release:
		case <-ctx.Done():
		}
	}
}

// flush hands over what is there, both streams in turn. hold is how long the beginning of a character waits.
func (f *follower) flush(ctx context.Context, all bool) (hold time.Duration, err error) {
	for more := true; more; {
		more, hold = false, 0
		for i := range f.readers {
			if err := ended(ctx); err != nil {
				return 0, err
			}
			moved, wait, err := f.piece(&f.readers[i], all)
			if err != nil {
				return 0, err
			}
			more = more || moved
			if wait > 0 && (hold == 0 || wait < hold) {
				hold = wait
			}
		}
	}
	return hold, nil
}

// piece hands over one piece of one stream, if there is one.
func (f *follower) piece(r *reader, all bool) (moved bool, hold time.Duration, err error) {
	n, missing, err := r.tape.read(r.at, f.buf)
	if err != nil {
		return false, 0, err
	}
	o := sandbox.Output{Stream: r.stream, Offset: r.at, Missing: missing}
	if missing > 0 {
		r.at += missing
		return true, 0, f.take(o)
	}
	if n == 0 {
		return false, 0, nil
	}
	whole := cut(f.buf[:n])
	if whole == 0 {
		if r.held.IsZero() {
			r.held = time.Now()
		}
		if left := holdFor - time.Since(r.held); left > 0 && !all {
			return false, left, nil
		}
		whole = n
	}
	r.held = time.Time{}
	o.Data = f.buf[:whole]
	r.at += int64(whole)
	return true, 0, f.take(o)
}

// cut is how many bytes to hand over so that the rest is the beginning of a character, if there is one.
func cut(data []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(data); back++ {
		if tail := data[len(data)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(data) - back
			}
			break
		}
	}
	return len(data)
}
