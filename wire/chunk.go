package wire

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// An Event with a Chunk is nearly all of what a stream carries. Its data comes last in the message, so a
// sender can put the few bytes before it in front of where the data lies already, and a receiver can
// hand the data on where it arrived. What is written and read here is the ordinary encoding of the
// message (protobuf.dev/programming-guides/encoding), no other.

// Numbers of the fields in wire.proto; a test compares the encodings.
const (
	eventChunk  protowire.Number = 2
	chunkStream protowire.Number = 1
	chunkOffset protowire.Number = 2
	chunkData   protowire.Number = 3
)

// EnvelopeHead is how many bytes come before each message of gRPC and of Connect's streams alike: flags, and
// the length in four bytes (grpc.io PROTOCOL-HTTP2, connectrpc.com/docs/protocol).
const EnvelopeHead = 5

// MostChunkHead is the most that AppendChunkHead appends.
const MostChunkHead = 3*(1+5) + 1 + 10

// AppendChunkHead appends what comes before the data in the encoding of an Event with a Chunk of n bytes
// of data, n > 0: head and data together are what proto.Marshal makes.
func AppendChunkHead(b []byte, stream wirev1.Stream, offset uint64, n int) []byte {
	size := protowire.SizeTag(chunkData) + protowire.SizeBytes(n)
	if stream != 0 {
		size += protowire.SizeTag(chunkStream) + protowire.SizeVarint(uint64(stream))
	}
	if offset != 0 {
		size += protowire.SizeTag(chunkOffset) + protowire.SizeVarint(offset)
	}
	b = protowire.AppendTag(b, eventChunk, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	if stream != 0 {
		b = protowire.AppendTag(b, chunkStream, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(stream))
	}
	if offset != 0 {
		b = protowire.AppendTag(b, chunkOffset, protowire.VarintType)
		b = protowire.AppendVarint(b, offset)
	}
	b = protowire.AppendTag(b, chunkData, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(n))
}

// CutChunk reads the encoding of an Event into chunk, whose Data is then a part of message. False says
// that it is not the plain form of a Chunk (another event, a field of a later version, or no Event at
// all) and is left to proto.Unmarshal; chunk is then of no use.
func CutChunk(message []byte, chunk *wirev1.Chunk) bool {
	number, kind, n := protowire.ConsumeTag(message)
	if n < 0 || number != eventChunk || kind != protowire.BytesType {
		return false
	}
	body, m := protowire.ConsumeBytes(message[n:])
	if m < 0 || n+m != len(message) {
		return false
	}
	chunk.Stream, chunk.Offset, chunk.Data = 0, 0, nil
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		body = body[n:]
		switch {
		case number == chunkData && kind == protowire.BytesType:
			chunk.Data, n = protowire.ConsumeBytes(body)
		case number == chunkOffset && kind == protowire.VarintType:
			chunk.Offset, n = protowire.ConsumeVarint(body)
		case number == chunkStream && kind == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(body); v > math.MaxInt32 {
				return false
			}
			chunk.Stream = wirev1.Stream(v)
		default:
			return false
		}
		if n < 0 {
			return false
		}
		body = body[n:]
	}
	return true
}
