package killtest

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// firstLine begins a numbered text: lines of eight digits, each one more than the one before, as
// `seq 10000000 …` prints them. Every byte of it is known from its offset alone, so that a reader can
// prove each byte's place, which is more than an equal hash proves.
const firstLine = 10_000_000

// numbered is such a text with its line ends.
type numbered struct{ newline string }

// at is the text from offset on, as long as asked.
func (n numbered) at(offset uint64, length int) []byte {
	width := uint64(8 + len(n.newline))
	line, skip := offset/width, int(offset%width)
	out := make([]byte, 0, skip+length+int(width))
	for len(out) < skip+length {
		out = strconv.AppendUint(out, firstLine+line, 10)
		out = append(out, n.newline...)
		line++
	}
	return out[skip : skip+length]
}

// check says which byte of data is out of its place.
func (n numbered) check(offset uint64, data []byte) error {
	want := n.at(offset, len(data))
	if bytes.Equal(want, data) {
		return nil
	}
	i := 0
	for want[i] == data[i] {
		i++
	}
	return fmt.Errorf("byte %d is of %q, want %q", offset+uint64(i), data[i:min(len(data), i+30)], want[i:min(len(want), i+30)])
}

// numberedSink checks stdout as it comes.
type numberedSink struct {
	numbered
	end  uint64
	seen func(end uint64)
}

func (s *numberedSink) Started(*wirev1.Started) error { return nil }
func (s *numberedSink) Gap(g *wirev1.Gap) error       { return fmt.Errorf("a gap: %v", g) }

func (s *numberedSink) Output(stream wirev1.Stream, offset uint64, data []byte) error {
	if stream != wirev1.Stream_STREAM_STDOUT {
		return fmt.Errorf("output on %v: %q", stream, data)
	}
	if offset != s.end {
		return fmt.Errorf("offset %d, want %d", offset, s.end)
	}
	s.end += uint64(len(data))
	if s.seen != nil {
		s.seen(s.end)
	}
	return s.check(offset, data)
}

// cappedSink takes the gaps of a cap, and counts what they left out.
type cappedSink struct {
	numberedSink
	left uint64
}

func (s *cappedSink) Gap(g *wirev1.Gap) error {
	if g.GetReason() != wirev1.GapReason_GAP_REASON_CAP || g.GetFrom() != s.end || g.GetTo() <= g.GetFrom() {
		return fmt.Errorf("a gap at %d: %v", s.end, g)
	}
	s.left += g.GetTo() - s.end
	s.end = g.GetTo()
	return nil
}

// lines is the length of a numbered text of so many lines.
func (n numbered) lines(count int) uint64 { return uint64(count) * uint64(8+len(n.newline)) }
