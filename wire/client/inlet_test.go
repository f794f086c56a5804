package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func envelopeOf(t *rapid.T, e *wirev1.Event) []byte {
	message, err := proto.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// byConnect reads one envelope as Connect does: its five bytes, then the message.
func byConnect(r io.Reader) (*wirev1.Event, error) {
	var head [wire.EnvelopeHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, err
	}
	var e wirev1.Event
	return &e, proto.Unmarshal(message, &e)
}

// TestInletHandsEveryEventOnInOrder holds it however the connection cuts the stream, and where it breaks.
func TestInletHandsEveryEventOnInOrder(t *testing.T) {
	broken := errors.New("broken")
	rapid.Check(t, func(t *rapid.T) {
		var events []*wirev1.Event
		var stream, last []byte
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			e := &wirev1.Event{}
			switch rapid.SampledFrom([]string{"chunk", "chunk", "large chunk", "too large chunk", "beat", "nothing"}).Draw(t, "kind") {
			case "chunk":
				e.Event = &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: 1, Offset: 7, Data: rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "data")}}
			case "large chunk":
				n := wire.MaxChunk - rapid.IntRange(0, 5).Draw(t, "less")
				e.Event = &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: 2, Offset: 1 << 60, Data: bytes.Repeat([]byte{byte(n)}, n)}}
			case "too large chunk":
				e.Event = &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: 2, Data: bytes.Repeat([]byte("x"), wire.MaxChunk+100)}}
			case "beat":
				e.Event = &wirev1.Event_Beat{Beat: &wirev1.Beat{StdoutEnd: 5}}
			}
			events = append(events, e)
			last = envelopeOf(t, e)
			stream = append(stream, last...)
		}
		whole := len(stream)
		stream = stream[:whole-rapid.IntRange(0, min(len(last), 20)).Draw(t, "missing")]
		end, breaks := io.EOF, rapid.Bool().Draw(t, "breaks")
		if breaks {
			end = broken
		}
		body := io.MultiReader(bytes.NewReader(stream), iotest.ErrReader(end))
		switch rapid.SampledFrom([]string{"as it is", "halves", "bytes", "error with data"}).Draw(t, "cut") {
		case "halves":
			body = iotest.HalfReader(body)
		case "bytes":
			body = iotest.OneByteReader(body)
		case "error with data":
			body = iotest.DataErrReader(body)
		}
		in := newInlet()
		in.body = io.NopCloser(body)
		defer in.release()
		for i := 0; ; i++ {
			got, err := &in.event, error(nil)
			if !in.next() {
				got, err = byConnect(in)
			}
			if err != nil {
				cut := len(stream) < whole
				if i < len(events)-1 || i == len(events)-1 && !cut {
					t.Fatalf("event %d of %d: %v", i, len(events), err)
				}
				if breaks != errors.Is(err, broken) || !breaks && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("the end is told as %v, not %v", err, end)
				}
				return
			}
			if i >= len(events) || !proto.Equal(got, events[i]) {
				t.Fatalf("event %d is another", i)
			}
		}
	})
}

func TestInletLeavesCompressedMessagesToConnect(t *testing.T) {
	stream := append([]byte{1, 0, 0, 0, 7}, 0x12, 5, 0x1a, 3, 'a', 'b', 'c')
	in := newInlet()
	in.body = io.NopCloser(bytes.NewReader(stream))
	if in.next() {
		t.Fatal("a compressed message was taken for a chunk")
	}
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, stream) {
		t.Fatalf("left %x, %v", got, err)
	}
}
