//go:build linux

package server

import (
	"context"
	"encoding/binary"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// outlet sends the events of one stream. Chunks are nearly all of its bytes: they go out by one write
// from where they were read. By Connect each would be copied twice, and its envelope be a frame of its
// own.
type outlet struct {
	send func(*wirev1.Event) error
	// to takes envelopes beside Connect, once Connect has sent status and headers with the first event.
	// Nil where a message is not simply an envelope of the binary encoding.
	to    http.ResponseWriter
	begun bool
	event wirev1.Event
	chunk wirev1.Event_Chunk
}

// chunkRoom is left free before the data of a chunk, for all that goes before it.
const chunkRoom = wire.EnvelopeHead + wire.MostChunkHead

type writerKey struct{}

// withWriter lets the calls of a request find where its answer goes.
func withWriter(ctx context.Context, w http.ResponseWriter) context.Context {
	return context.WithValue(ctx, writerKey{}, w)
}

// outletOf is the outlet of a call.
func outletOf(ctx context.Context, stream *connect.ServerStream[wirev1.Event]) *outlet {
	o := &outlet{send: stream.Send}
	header := stream.Conn().RequestHeader()
	switch kind, _, _ := strings.Cut(header.Get("Content-Type"), ";"); kind {
	case "application/grpc", "application/grpc+proto", "application/connect+proto":
		o.to, _ = ctx.Value(writerKey{}).(http.ResponseWriter)
	}
	return o
}

// tell sends an event of any kind.
func (o *outlet) tell(e *wirev1.Event) error {
	o.begun = true
	return o.send(e)
}

// tellChunk sends the n bytes of data that stand in buf after chunkRoom.
func (o *outlet) tellChunk(ctx context.Context, stream wirev1.Stream, offset uint64, buf []byte, n int) error {
	if o.to == nil || !o.begun {
		o.chunk.Chunk = &wirev1.Chunk{Stream: stream, Offset: offset, Data: buf[chunkRoom : chunkRoom+n]}
		o.event.Event = &o.chunk
		err := o.tell(&o.event)
		o.chunk.Chunk = nil
		return err
	}
	var head [chunkRoom]byte // of the flags none is set
	message := wire.AppendChunkHead(head[wire.EnvelopeHead:wire.EnvelopeHead], stream, offset, n)
	binary.BigEndian.PutUint32(head[1:], uint32(len(message)+n))
	size := wire.EnvelopeHead + len(message)
	begin := chunkRoom - size
	copy(buf[begin:], head[:size])
	_, err := o.to.Write(buf[begin : chunkRoom+n])
	if err == nil {
		err = http.NewResponseController(o.to).Flush()
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The client is gone, as Connect would tell it.
		return connect.NewError(connect.CodeUnknown, err)
	}
	return nil
}
