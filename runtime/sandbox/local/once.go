package local

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// digest tells one call from another: each word with its length, so that no two lists run into one.
type digest struct{ hash.Hash }

func (d *digest) bytes(b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	d.Write(n[:])
	d.Write(b)
}

func (d *digest) words(all ...string) {
	for _, w := range all {
		d.bytes([]byte(w))
	}
}

// call tells a call by words alone.
func call(verb string, words ...string) func(*digest) {
	return func(d *digest) {
		d.words(verb)
		d.words(words...)
	}
}

func sum(told func(*digest)) (out [sha256.Size]byte) {
	d := digest{sha256.New()}
	told(&d)
	d.Sum(out[:0])
	return out
}

// once does an operation, or, on a view that Once made, gives what the first call under its id gave.
func once[V any](ctx context.Context, s *Sandbox, told func(*digest), do func() (V, error)) (V, error) {
	var none V
	if err := ended(ctx); err != nil {
		return none, err
	}
	if s.once == "" {
		if s.ledger.isClosed() {
			return none, errClosed
		}
		return do()
	}
	e, mine, err := s.ledger.claim(s.once, sum(told))
	if err != nil {
		return none, err
	}
	if mine {
		value, err := do()
		if err != nil && ctx.Err() != nil {
			// It was broken off: what it would have returned is not known. Done again, it completes.
			s.ledger.abandon(e)
			return none, err
		}
		s.ledger.settle(e, value, err, sizeOf(value))
		return value, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	value, is := e.value.(V)
	if !is && e.err == nil {
		return none, sandbox.ErrConflict
	}
	return value, e.err
}

// sizeOf is about how much memory a result takes.
func sizeOf(value any) int64 {
	const small = 256
	switch v := value.(type) {
	case []byte:
		return small + int64(len(v))
	case []sandbox.Read:
		n := int64(small)
		for _, r := range v {
			n += small + int64(len(r.Content))
		}
		return n
	case []sandbox.Info:
		return small * int64(1+len(v))
	case []sandbox.Stated:
		return small * int64(1+len(v))
	case *recording:
		return small + v.size
	}
	return small
}
