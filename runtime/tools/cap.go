package tools

import (
	"fmt"
	"unicode/utf8"
)

// HeadBytes and TailBytes are how much of a long result a model is told: how it began, and how it ended.
const (
	HeadBytes = 10_000
	TailBytes = 20_000
)

// Cap keeps the head and the tail of what is written to it, in bounded memory. The zero value is ready.
type Cap struct {
	head, tail []byte
	total      int64
}

// Write takes more. It never fails.
func (c *Cap) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := HeadBytes - len(c.head); room > 0 {
		take := min(room, len(p))
		c.head = append(c.head, p[:take]...)
		p = p[take:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*TailBytes {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-TailBytes:]...)
	}
	return n, nil
}

// Bytes is what is kept, with a word about what is left out. Text is not cut inside a character.
func (c *Cap) Bytes() []byte {
	tail := c.tail[max(0, len(c.tail)-TailBytes):]
	if c.total == int64(len(c.head)+len(tail)) {
		return append(append([]byte(nil), c.head...), tail...)
	}
	head := wholeEnd(c.head)
	tail = wholeStart(tail)
	left := c.total - int64(len(head)+len(tail))
	out := append([]byte(nil), head...)
	out = fmt.Appendf(out, "\n[%d bytes left out]\n", left)
	return append(out, tail...)
}

// wholeEnd drops a character that is cut at the end.
func wholeEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// wholeStart drops the rest of a character at the beginning.
func wholeStart(p []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(p); i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p
}

func capped(content []byte) []byte {
	var c Cap
	_, _ = c.Write(content)
	return c.Bytes()
}
