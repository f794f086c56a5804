package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func chunkEvent(stream wirev1.Stream, offset uint64, data []byte) *wirev1.Event {
	return &wirev1.Event{Event: &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: stream, Offset: offset, Data: data}}}
}

func TestChunkHeadAndDataAreTheEncodingOfTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := wirev1.Stream(rapid.Int32Range(0, 200).Draw(t, "stream"))
		offset := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "offset")
		data := make([]byte, rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, wire.MaxChunk)).Draw(t, "n"))
		data[0], data[len(data)-1] = 1, 2
		want, err := proto.Marshal(chunkEvent(stream, offset, data))
		if err != nil {
			t.Fatal(err)
		}
		head := wire.AppendChunkHead(nil, stream, offset, len(data))
		if len(head) > wire.MostChunkHead {
			t.Fatalf("the head has %d bytes", len(head))
		}
		if !bytes.Equal(append(head, data...), want) {
			t.Fatal("head and data are not what proto.Marshal makes")
		}
		var chunk wirev1.Chunk
		if !wire.CutChunk(want, &chunk) || chunk.Stream != stream || chunk.Offset != offset || !bytes.Equal(chunk.Data, data) {
			t.Fatalf("read back as %v", &chunk)
		}
	})
}

// FuzzCutChunk holds that what CutChunk takes, proto.Unmarshal takes for the same chunk.
func FuzzCutChunk(f *testing.F) {
	for _, e := range []*wirev1.Event{
		{},
		chunkEvent(wirev1.Stream_STREAM_STDERR, 7, []byte("text")), chunkEvent(0, 0, nil),
		{Event: &wirev1.Event_Beat{Beat: &wirev1.Beat{StdoutEnd: 5}}},
	} {
		b, err := proto.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
	}
	f.Add([]byte{0x12, 0x03, 0x1a, 0x01, 'a', 0x22, 0x00})                                      // a beat after it
	f.Add([]byte{0x12, 0x06, 0x1a, 0x01, 'a', 0x1a, 0x01, 'b'})                                 // data twice
	f.Add([]byte{0x12, 0x05, 0x1a, 0x01, 'a', 0x20, 0x01})                                      // a field of a later version
	f.Add([]byte{0x12, 0x04, 0x1a, 0x7f, 'a', 'b'})                                             // torn
	f.Add([]byte{0x12, 0x0b, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}) // a stream below zero
	f.Fuzz(func(t *testing.T, message []byte) {
		var chunk wirev1.Chunk
		if !wire.CutChunk(message, &chunk) {
			return
		}
		var event wirev1.Event
		if err := proto.Unmarshal(message, &event); err != nil {
			t.Fatalf("proto.Unmarshal refuses it: %v", err)
		}
		if want := event.GetChunk(); want == nil || want.Stream != chunk.Stream || want.Offset != chunk.Offset || !bytes.Equal(want.Data, chunk.Data) {
			t.Fatalf("%v, not %v", &chunk, want)
		}
	})
}
