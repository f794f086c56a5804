//go:build linux

package server

import "testing"

// Found under load: a stream that grew and closed while its last bytes were looked at had them sent as if
// nothing could come, in the middle of a character.
func TestBytesAreHeldUntilTheRealEndOfAClosedStream(t *testing.T) {
	s := &stream{}
	s.end.Store(5)
	r := &reader{stream: s}
	if r.wait(5) <= 0 {
		t.Fatal("an open stream's last bytes are not held")
	}
	s.closed.Store(true)
	if r.wait(2) <= 0 {
		t.Fatal("bytes are not held for those that came after them")
	}
	if r.wait(5) > 0 {
		t.Fatal("a closed stream's last bytes are held")
	}
}
