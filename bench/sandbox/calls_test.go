package sandbox_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http2/hpack"
)

// calls counts the requests that go out on connections, by the headers of HTTP/2: what the wire carries, whoever asked for it.
type calls struct {
	// waited counts all but Forget, which callers do not wait for.
	waited atomic.Int64
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (c *calls) around(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &counted{Conn: inner, calls: c, skip: len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), headers: hpack.NewDecoder(64<<10, nil)}, nil
	}
}

// counted reads along what is written.
type counted struct {
	net.Conn

	calls   *calls
	skip    int // bytes that are of no interest: the preface, and content
	frame   []byte
	headers *hpack.Decoder
}

const (
	frameHead    = 9
	frameHeaders = 1
	flagPriority = 0x20
)

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.follow(p[:n])
	return n, err
}

func (c *counted) follow(p []byte) {
	for len(p) > 0 {
		if c.skip > 0 {
			k := min(c.skip, len(p))
			c.skip -= k
			p = p[k:]
			continue
		}
		want := frameHead
		if len(c.frame) >= frameHead {
			want += length(c.frame)
		}
		k := min(want-len(c.frame), len(p))
		c.frame, p = append(c.frame, p[:k]...), p[k:]
		if len(c.frame) < frameHead {
			continue
		}
		switch {
		case c.frame[3] != frameHeaders:
			c.skip, c.frame = length(c.frame), c.frame[:0]
		case len(c.frame) == frameHead+length(c.frame):
			c.head(c.frame[4], c.frame[frameHead:])
			c.frame = c.frame[:0]
		}
	}
}

func length(frame []byte) int { return int(binary.BigEndian.Uint32(frame) >> 8) }

func (c *counted) head(flags byte, block []byte) {
	if flags&flagPriority != 0 {
		block = block[5:]
	}
	fields, err := c.headers.DecodeFull(block)
	if err != nil {
		return
	}
	for _, f := range fields {
		if f.Name == ":path" && !strings.HasSuffix(f.Value, "/Forget") {
			c.calls.waited.Add(1)
		}
	}
}
