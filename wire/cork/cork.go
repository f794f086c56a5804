// Package cork sends frames of HTTP/2 together that belong together. net/http writes the headers of a request or an answer, its
// message and its trailers each by themselves, which costs a packet for each, and a waking of the peer for nothing, in every
// call. The kernel is told of those after which more is sure to come, and holds them for it, 200 ms at most (tcp(7), MSG_MORE).
//
// A client's end also keeps from waking either side for parts: it sends one update of a window in some, and is woken for a frame rather
// than for each of its packets.
package cork

import (
	"encoding/binary"
	"net"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// Listener corks the connections that l accepts.
func Listener(l net.Listener) net.Listener { return corkedListener{l} }

type corkedListener struct{ net.Listener }

func (l corkedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return accepted(c), nil
}

// Numbers of HTTP/2 (RFC 9113, sections 4.1, 6.1, 6.2 and 6.9).
const (
	frameHead             = 9
	typeData, typeHeaders = 0, 1
	typeWindowUpdate      = 8
	updateSize            = frameHead + 4
	endStream, endHeaders = 0x1, 0x4
)

// moreComes says whether bytes are one whole frame after which the stream is sure to go on at once. Other bytes that look like
// it come to no harm.
func moreComes(p []byte) bool {
	if len(p) <= frameHead || int(p[0])<<16|int(p[1])<<8|int(p[2]) != len(p)-frameHead {
		return false
	}
	flags := p[4]
	switch p[3] {
	case typeHeaders:
		return flags&endStream == 0 && flags&endHeaders != 0
	case typeData:
		return flags == 0 && lastEvent(p[frameHead:])
	}
	return false
}

// lastEvent says whether data is one envelope (flags, length in four bytes) of an Event with an Exit or a Lost, by the tag of its
// only field; a test compares. Trailers follow it.
func lastEvent(data []byte) bool {
	const exitTag, lostTag = 5<<3 | 2, 6<<3 | 2
	return len(data) > wire.EnvelopeHead && data[0] == 0 && binary.BigEndian.Uint32(data[1:]) == uint32(len(data)-wire.EnvelopeHead) &&
		(data[wire.EnvelopeHead] == exitTag || data[wire.EnvelopeHead] == lostTag)
}

// updated says by how much the windows of streams grow, if bytes are WINDOW_UPDATE frames and nothing else. The connection's own window
// does not count.
func updated(p []byte) (by int, only bool) {
	for ; len(p) >= updateSize; p = p[updateSize:] {
		if p[0] != 0 || p[1] != 0 || p[2] != updateSize-frameHead || p[3] != typeWindowUpdate {
			return 0, false
		}
		only = true
		if binary.BigEndian.Uint32(p[5:]) != 0 {
			by += int(binary.BigEndian.Uint32(p[frameHead:]))
		}
	}
	return by, only && len(p) == 0
}
