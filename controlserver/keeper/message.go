//go:build linux

package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// message is what travels between server and keeper: a kind, a number that ties an answer to its
// question, and one body. Both ends are the same binary, so the format has no versions: all integers
// are big-endian, all bytes have a length before them.
type message struct {
	kind kind
	seq  uint64
	// One of these, by kind.
	order   *Order
	shot    *Shot
	id      string
	signal  int64
	receipt *Receipt
	hit     *Hit
	ended   *Ended
	live    *Live
	text    string
}

type kind uint8

// Questions of the server, answers and notices of the keeper.
const (
	kindStart kind = iota + 1
	kindSignal
	kindRelease
	kindCloseStdin
	kindSweep
	kindServing // the server answers callers
	kindStarted // answer to kindStart
	kindHit     // answer to kindSignal
	kindDone    // answer to the rest but kindRelease, which has none; text is the error, empty for none
	kindEnded   // a process was reaped
	kindLive    // an exec that lived when this server was born
	kindEpoch   // after the last kindLive: text is the epoch, signal the TreeKill
)

var errMessage = errors.New("message between server and keeper is damaged")

// encode never fails; decode accepts exactly what encode makes.
func (m *message) encode() []byte {
	w := &encoder{b: make([]byte, 0, 256)}
	w.u64(uint64(m.kind))
	w.u64(m.seq)
	switch m.kind {
	case kindStart:
		w.order(m.order)
	case kindSignal:
		w.text(m.shot.ID)
		w.i64(int64(m.shot.Signal))
		w.i64(int64(m.shot.Target))
		w.i64(int64(m.shot.Cause))
	case kindRelease, kindCloseStdin:
		w.text(m.id)
	case kindSweep:
		w.i64(m.signal)
	case kindStarted:
		w.text(m.text)
		w.receipt(m.receipt)
	case kindHit:
		w.text(m.text)
		w.flag(m.hit.Delivered)
		w.i64(int64(m.hit.ReachedBy))
		w.flag(m.hit.MayHaveEscaped)
	case kindDone:
		w.text(m.text)
	case kindEpoch:
		w.text(m.text)
		w.i64(m.signal)
	case kindEnded:
		w.ended(m.ended)
	case kindLive:
		w.live(m.live)
	}
	return w.b
}

func decode(b []byte) (*message, error) {
	r := &decoder{b: b}
	m := &message{kind: kind(r.u64()), seq: r.u64()}
	switch m.kind {
	case kindStart:
		m.order = r.order()
	case kindSignal:
		m.shot = &Shot{ID: r.text(), Signal: int(r.i64()), Target: wirev1.SignalTarget(r.i64()), Cause: wirev1.ExitCause(r.i64())}
	case kindRelease, kindCloseStdin:
		m.id = r.text()
	case kindSweep:
		m.signal = r.i64()
	case kindServing:
	case kindStarted:
		m.text = r.text()
		m.receipt = r.receipt()
	case kindHit:
		m.text = r.text()
		m.hit = &Hit{Delivered: r.flag(), ReachedBy: wirev1.TreeKill(r.i64()), MayHaveEscaped: r.flag()}
	case kindDone:
		m.text = r.text()
	case kindEpoch:
		m.text, m.signal = r.text(), r.i64()
	case kindEnded:
		m.ended = r.ended()
	case kindLive:
		m.live = r.live()
	default:
		return nil, fmt.Errorf("%w: kind %d", errMessage, m.kind)
	}
	if r.bad || len(r.b) != 0 {
		return nil, errMessage
	}
	return m, nil
}

type encoder struct{ b []byte }

func (w *encoder) u64(n uint64)   { w.b = binary.BigEndian.AppendUint64(w.b, n) }
func (w *encoder) i64(n int64)    { w.u64(uint64(n)) }
func (w *encoder) text(s string)  { w.u64(uint64(len(s))); w.b = append(w.b, s...) }
func (w *encoder) bytes(b []byte) { w.u64(uint64(len(b))); w.b = append(w.b, b...) }

func (w *encoder) flag(f bool) {
	if f {
		w.u64(1)
	} else {
		w.u64(0)
	}
}

func (w *encoder) list(l [][]byte) {
	w.u64(uint64(len(l)))
	for _, b := range l {
		w.bytes(b)
	}
}

func (w *encoder) order(o *Order) {
	w.text(o.ID)
	w.bytes(o.Record)
	w.list(o.Argv)
	w.list(o.Env)
	w.text(o.Dir)
	w.flag(o.User != nil)
	if o.User != nil {
		w.u64(uint64(o.User.UID))
		w.u64(uint64(o.User.GID))
		w.u64(uint64(len(o.User.Groups)))
		for _, g := range o.User.Groups {
			w.u64(uint64(g))
		}
	}
	w.u64(uint64(o.Stdin))
	w.bytes(o.Content)
	w.flag(o.Merge)
	w.flag(o.Terminal != nil)
	if o.Terminal != nil {
		w.u64(uint64(o.Terminal.Cols))
		w.u64(uint64(o.Terminal.Rows))
	}
}

func (w *encoder) receipt(r *Receipt) {
	w.flag(r.Existed)
	w.flag(r.Failure != nil)
	if r.Failure != nil {
		w.i64(int64(r.Failure.Step))
		w.text(r.Failure.Text)
	}
	w.i64(int64(r.PID))
	w.i64(r.StartedAt)
	w.flag(r.Volatile)
	w.u64(uint64(r.Files.mask()))
}

func (w *encoder) ended(e *Ended) {
	w.text(e.ID)
	w.i64(int64(e.Cause))
	w.i64(int64(e.Code))
	w.i64(int64(e.Signal))
	w.flag(e.Core)
	w.flag(e.OutOfMemory)
	w.i64(e.At)
	w.i64(e.UserUS)
	w.i64(e.SystemUS)
	w.i64(e.MaxRSS)
}

func (w *encoder) live(l *Live) {
	w.text(l.ID)
	w.i64(int64(l.PID))
	w.i64(l.StartedAt)
	w.u64(uint64(l.Files.mask()))
	w.flag(l.Ended != nil)
	if l.Ended != nil {
		w.ended(l.Ended)
	}
}

// decoder reads what encoder wrote. After the first thing that does not fit it reads zeroes.
type decoder struct {
	b   []byte
	bad bool
}

func (r *decoder) u64() uint64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

func (r *decoder) i64() int64 { return int64(r.u64()) }

// u32 and flag refuse what encoder never writes, so that a message has one form.
func (r *decoder) u32() uint32 {
	n := r.u64()
	if n>>32 != 0 {
		r.bad, r.b = true, nil
	}
	return uint32(n)
}

func (r *decoder) flag() bool {
	n := r.u64()
	if n > 1 {
		r.bad, r.b = true, nil
	}
	return n == 1
}

// count is a length that the rest of the message can hold, at least size bytes each.
func (r *decoder) count(size int) int {
	n := r.u64()
	if n > uint64(len(r.b)/size) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *decoder) bytes() []byte {
	n := r.count(1)
	if r.bad {
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *decoder) text() string { return string(r.bytes()) }

func (r *decoder) list() [][]byte {
	l := make([][]byte, r.count(8))
	for i := range l {
		l[i] = r.bytes()
	}
	return l
}

func (r *decoder) order() *Order {
	o := &Order{ID: r.text(), Record: r.bytes(), Argv: r.list(), Env: r.list(), Dir: r.text()}
	if r.flag() {
		o.User = &User{UID: r.u32(), GID: r.u32()}
		for range r.count(8) {
			o.User.Groups = append(o.User.Groups, r.u32())
		}
	}
	o.Stdin, o.Content, o.Merge = StdinKind(r.u32()), r.bytes(), r.flag()
	if r.flag() {
		o.Terminal = &Size{Cols: r.u32(), Rows: r.u32()}
	}
	return o
}

func (r *decoder) receipt() *Receipt {
	a := &Receipt{Existed: r.flag()}
	if r.flag() {
		a.Failure = &spool.Failure{Step: wirev1.StartFailure(r.i64()), Text: r.text()}
	}
	a.PID, a.StartedAt, a.Volatile = int(r.i64()), r.i64(), r.flag()
	a.Files.expect = r.u32()
	return a
}

func (r *decoder) ended() *Ended {
	return &Ended{ID: r.text(), Cause: wirev1.ExitCause(r.i64()), Ended: spool.Ended{
		Code: int(r.i64()), Signal: int(r.i64()), Core: r.flag(), OutOfMemory: r.flag(), At: r.i64(),
		UserUS: r.i64(), SystemUS: r.i64(), MaxRSS: r.i64(),
	}}
}

func (r *decoder) live() *Live {
	l := &Live{ID: r.text(), PID: int(r.i64()), StartedAt: r.i64()}
	l.Files.expect = r.u32()
	if r.flag() {
		l.Ended = r.ended()
	}
	return l
}
