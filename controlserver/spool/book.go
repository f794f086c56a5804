//go:build linux

package spool

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Gap is a range of a stream that is not stored. To is Growing while it grows.
type Gap struct {
	From, To uint64
	Reason   wirev1.GapReason
}

// Growing is the end of a gap that is not over.
const Growing = math.MaxUint64

// Book knows which bytes of a stream are not stored. Whoever makes a gap writes it down before the file
// shows it: a hole that no book tells of would be read as zeroes. Its methods are safe for concurrent
// use.
type Book struct {
	spool      *Spool
	id, stream string

	mu   sync.Mutex
	tail uint64 // bytes below were given up to keep those above
	gaps []Gap  // in order, the last one perhaps Growing
}

// NewBook is the book of an exec's stream ("out" or "err"), with what the state has of it.
func NewBook(s *Spool, id, stream string, st State) *Book {
	b := &Book{spool: s, id: id, stream: stream}
	if kept, ok := st.books[stream]; ok {
		b.tail, b.gaps = kept.tail, kept.gaps
	}
	return b
}

// Begin opens a gap at an offset, on record first. A gap that is open already goes on.
func (b *Book) Begin(from uint64, reason wirev1.GapReason) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open() {
		return nil
	}
	if err := b.spool.appendState(b.id, fmt.Sprintf("gap %s %d %d", b.stream, from, int32(reason))); err != nil {
		return err
	}
	b.gaps = append(b.gaps, Gap{From: from, To: Growing, Reason: reason})
	return nil
}

// End closes the open gap, if there is one.
func (b *Book) End(to uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() {
		return nil
	}
	if err := b.spool.appendState(b.id, fmt.Sprintf("gapend %s %d", b.stream, to)); err != nil {
		return err
	}
	b.gaps[len(b.gaps)-1].To = to
	return nil
}

// GiveUp says that bytes below an offset are about to be dropped.
func (b *Book) GiveUp(tail uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if tail <= b.tail {
		return nil
	}
	if err := b.spool.appendState(b.id, fmt.Sprintf("tail %s %d", b.stream, tail)); err != nil {
		return err
	}
	b.tail = tail
	return nil
}

func (b *Book) open() bool { return len(b.gaps) > 0 && b.gaps[len(b.gaps)-1].To == Growing }

// Gaping is the reason of the open gap, UNSPECIFIED when there is none.
func (b *Book) Gaping() wirev1.GapReason {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open() {
		return wirev1.GapReason_GAP_REASON_UNSPECIFIED
	}
	return b.gaps[len(b.gaps)-1].Reason
}

// Tail is the offset below which everything was given up.
func (b *Book) Tail() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tail
}

// At looks at an offset below end: it returns the gap that begins there, cut at end, or else how far
// stored bytes go.
func (b *Book) At(at, end uint64) (gap *Gap, until uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at < b.tail {
		return &Gap{From: at, To: min(b.tail, end), Reason: wirev1.GapReason_GAP_REASON_CAP}, 0
	}
	for _, g := range b.gaps {
		switch {
		case g.To <= at:
		case g.From <= at:
			return &Gap{From: at, To: min(g.To, end), Reason: g.Reason}, 0
		default:
			return nil, min(g.From, end)
		}
	}
	return nil, end
}

// Collected is the book of a stream of which nothing is left.
func Collected() *Book {
	return &Book{gaps: []Gap{{From: 0, To: Growing, Reason: wirev1.GapReason_GAP_REASON_COLLECTED}}}
}

// page is one stream's part of a folded state.
type page struct {
	tail uint64
	gaps []Gap
}

// turn applies a book's line to a state.
func (st *State) turn(word string, rest string) {
	f := strings.Fields(rest)
	if len(f) < 2 {
		return
	}
	if st.books == nil {
		st.books = map[string]*page{}
	}
	p := st.books[f[0]]
	if p == nil {
		p = &page{}
		st.books[f[0]] = p
	}
	n := uint64(number(f[1]))
	last := len(p.gaps) - 1
	switch {
	case word == "tail":
		p.tail = max(p.tail, n)
	case word == "gapend" && last >= 0 && p.gaps[last].To == Growing:
		p.gaps[last].To = n
	case word == "gap" && len(f) > 2 && (last < 0 || p.gaps[last].To != Growing):
		p.gaps = append(p.gaps, Gap{From: n, To: Growing, Reason: wirev1.GapReason(number(f[2]))})
	}
}
