package client

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// cursor is what one run has of an exec's two streams: all bytes below its offsets arrived, or were
// reported as gaps. It is pure; it decides what a caller may see.
type cursor struct {
	stdout, stderr uint64
	gaps           []*wirev1.Gap
}

// holeError says that the machine skipped bytes without a Gap: a fault of the transport or the machine,
// answered by attaching again where the cursor stands.
type holeError struct {
	stream   wirev1.Stream
	at, next uint64
}

func (e *holeError) Error() string {
	return fmt.Sprintf("%s jumped from offset %d to %d", streamName(e.stream), e.at, e.next)
}

func streamName(s wirev1.Stream) string {
	switch s {
	case wirev1.Stream_STREAM_STDOUT:
		return "stdout"
	case wirev1.Stream_STREAM_STDERR:
		return "stderr"
	}
	return "unknown stream"
}

func (c *cursor) at(s wirev1.Stream) *uint64 {
	switch s {
	case wirev1.Stream_STREAM_STDOUT:
		return &c.stdout
	case wirev1.Stream_STREAM_STDERR:
		return &c.stderr
	}
	return nil
}

// chunk returns the part of a chunk that is new, and moves past it. Repeated bytes are cut, so a
// caller sees each byte once.
func (c *cursor) chunk(m *wirev1.Chunk) (uint64, []byte, error) {
	at := c.at(m.GetStream())
	if at == nil {
		// A stream of a later version: what it carries is not ours to place.
		return 0, nil, nil
	}
	offset, data := m.GetOffset(), m.GetData()
	if offset > *at {
		return 0, nil, &holeError{m.GetStream(), *at, offset}
	}
	if have := *at - offset; have >= uint64(len(data)) {
		return *at, nil, nil
	} else if have > 0 {
		offset, data = *at, data[have:]
	}
	*at = offset + uint64(len(data))
	return offset, data, nil
}

// gap returns the part of a gap that is new, nil when there is none, and moves past it.
func (c *cursor) gap(m *wirev1.Gap) (*wirev1.Gap, error) {
	at := c.at(m.GetStream())
	if at == nil || m.GetTo() <= *at {
		return nil, nil
	}
	if m.GetFrom() > *at {
		return nil, &holeError{m.GetStream(), *at, m.GetFrom()}
	}
	g := &wirev1.Gap{Stream: m.GetStream(), From: *at, To: m.GetTo(), Reason: m.GetReason()}
	*at = m.GetTo()
	c.note(g)
	return g, nil
}

// note keeps a gap; one that grew while it was told is one.
func (c *cursor) note(g *wirev1.Gap) {
	for _, have := range c.gaps {
		if have.GetStream() == g.GetStream() && have.GetReason() == g.GetReason() && have.GetTo() == g.GetFrom() {
			have.To = g.GetTo()
			return
		}
	}
	c.gaps = append(c.gaps, &wirev1.Gap{Stream: g.GetStream(), From: g.GetFrom(), To: g.GetTo(), Reason: g.GetReason()})
}

// complete proves that everything below an exit's ends is here.
func (c *cursor) complete(e *wirev1.Exit) error {
	if c.stdout < e.GetStdoutEnd() {
		return &holeError{wirev1.Stream_STREAM_STDOUT, c.stdout, e.GetStdoutEnd()}
	}
	if c.stderr < e.GetStderrEnd() {
		return &holeError{wirev1.Stream_STREAM_STDERR, c.stderr, e.GetStderrEnd()}
	}
	return nil
}

func (c *cursor) offsets() *wirev1.Offsets {
	return &wirev1.Offsets{Stdout: c.stdout, Stderr: c.stderr}
}
