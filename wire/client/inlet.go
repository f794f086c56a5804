package client

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// inlet is the body of a stream's answer, between the connection and Connect. It takes the chunks out,
// which are nearly all of it, into a buffer that serves the whole stream; Connect would copy each twice,
// once into memory of its own. All else, and every failure, is left for Connect to read.
type inlet struct {
	body  io.ReadCloser
	buf   []byte  // holds what was read ahead, from at
	at    int     // of the first byte that nobody has taken
	large *[]byte // buf, when it is one of largeBuffers
	err   error   // the body's, once all before it is taken
	event wirev1.Event
	chunk wirev1.Event_Chunk
}

const (
	// peek is what is read to see what comes. It is less than HTTP/2 answers with a WINDOW_UPDATE.
	peek = 512
	// largest is the envelope of the largest chunk, with what is read ahead behind it.
	largest = wire.EnvelopeHead + wire.MostChunkHead + wire.MaxChunk + peek
)

var largeBuffers = sync.Pool{New: func() any { b := make([]byte, largest); return &b }}

func newInlet() *inlet {
	i := &inlet{buf: make([]byte, 0, 2*peek)}
	i.chunk.Chunk = new(wirev1.Chunk)
	i.event.Event = &i.chunk
	return i
}

type inletKey struct{}

// tap puts the inlet of a call's context, if it has one, into the call's answer.
type tap struct{ client *http.Client }

func (t *tap) Do(r *http.Request) (*http.Response, error) {
	answer, err := t.client.Do(r)
	if i, ok := r.Context().Value(inletKey{}).(*inlet); ok && err == nil {
		i.body, answer.Body = answer.Body, i
	}
	return answer, err
}

// through is the context of a call whose answer goes through the inlet.
func (i *inlet) through(ctx context.Context) context.Context {
	return context.WithValue(ctx, inletKey{}, i)
}

// receive returns the next event, valid until the next call; nil when the stream has ended or failed.
func (i *inlet) receive(events *connect.ServerStreamForClient[wirev1.Event]) *wirev1.Event {
	if i.next() {
		return &i.event
	}
	if !events.Receive() {
		return nil
	}
	return events.Msg()
}

// next takes an envelope that is a plain chunk. False leaves what comes where it is.
func (i *inlet) next() bool {
	if !i.have(wire.EnvelopeHead) {
		return false
	}
	head := i.buf[i.at:]
	size := binary.BigEndian.Uint32(head[1:])
	// Flags would be those of a compressed message.
	if head[0] != 0 || size > wire.MostChunkHead+wire.MaxChunk || !i.have(wire.EnvelopeHead+int(size)) {
		return false
	}
	message := i.buf[i.at+wire.EnvelopeHead:][:size]
	if !wire.CutChunk(message, i.chunk.Chunk) {
		return false
	}
	i.at += wire.EnvelopeHead + int(size)
	return true
}

// have reads until n bytes are there, and a little more if it comes with them.
func (i *inlet) have(n int) bool {
	held := len(i.buf) - i.at
	if held >= n {
		return true
	}
	if i.body == nil || i.err != nil {
		return false
	}
	i.makeRoom(held, n+peek)
	for len(i.buf) < n && i.err == nil {
		var got int
		got, i.err = i.body.Read(i.buf[len(i.buf) : n+peek])
		i.buf = i.buf[:len(i.buf)+got]
	}
	return len(i.buf) >= n
}

// makeRoom moves the held bytes to the front of a buffer that takes n.
func (i *inlet) makeRoom(held, n int) {
	to := i.buf[:held]
	if cap(i.buf) < n {
		i.large, _ = largeBuffers.Get().(*[]byte)
		to = (*i.large)[:held]
	}
	copy(to, i.buf[i.at:])
	i.buf, i.at = to, 0
}

// Read gives Connect what is not a chunk.
func (i *inlet) Read(p []byte) (int, error) {
	if i.at < len(i.buf) {
		n := copy(p, i.buf[i.at:])
		i.at += n
		return n, nil
	}
	if i.err != nil {
		return 0, i.err
	}
	return i.body.Read(p)
}

// Close ends the answer.
func (i *inlet) Close() error { return i.body.Close() }

// release gives the buffer back. The stream must be over.
func (i *inlet) release() {
	if i.large != nil {
		largeBuffers.Put(i.large)
	}
	i.buf, i.at, i.large, i.err = nil, 0, nil, io.ErrClosedPipe
}
