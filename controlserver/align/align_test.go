package align_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/align"
)

// cut splits bytes that arrive in the given pieces as a sender would, flushing at the end.
func cut(pieces ...[]byte) [][]byte {
	var chunks [][]byte
	var pending []byte
	for _, p := range pieces {
		pending = append(pending, p...)
		if n := align.Cut(pending); n > 0 {
			chunks = append(chunks, bytes.Clone(pending[:n]))
			pending = pending[n:]
		}
	}
	if len(pending) > 0 {
		chunks = append(chunks, pending)
	}
	return chunks
}

func TestNoSplitOfValidTextShows(t *testing.T) {
	text := []byte("aé≤😀\U0010FFFF\uFFFD\u07FF\u0800z")
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			chunks := cut(text[:i], text[i:j], text[j:])
			if !bytes.Equal(bytes.Join(chunks, nil), text) {
				t.Fatalf("%d, %d: bytes were changed: %q", i, j, chunks)
			}
			for _, c := range chunks {
				if !utf8.Valid(c) {
					t.Fatalf("%d, %d: %q is split", i, j, chunks)
				}
			}
		}
	}
}

func TestWhatCannotBecomeTextIsNotHeld(t *testing.T) {
	for _, s := range []string{
		"\xff", "a\xc0", "a\xc1", "a\xf5", "\xed\xa0", "\xe0\x80", "\xf0\x80", "\xf4\x90", "\x80\x80\x80", "\xe2\x89\xa4\x80", "\xf0\x9f\x98\x80",
	} {
		if n := align.Cut([]byte(s)); n != len(s) {
			t.Errorf("%q: %d bytes are held", s, len(s)-n)
		}
	}
	for s, want := range map[string]int{"a\xe2": 1, "a\xe2\x89": 1, "\xf0\x9f\x98": 0, "\xc3": 0, "": 0, "\xff\xe2": 1, "\xed\x9f": 0, "\xe0\xa0": 0} {
		if n := align.Cut([]byte(s)); n != want {
			t.Errorf("%q: cut at %d, want %d", s, n, want)
		}
	}
}

// Whatever comes, however split: chunks are the bytes, at most three are held, and what is held is the
// beginning of a character.
func FuzzCut(f *testing.F) {
	f.Add([]byte("a≤b"), uint8(2), uint8(3))
	f.Add([]byte("\xf0\x9f\x98\x80"), uint8(1), uint8(1))
	f.Add([]byte("\xff\xfe\xe2"), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, a, b uint8) {
		i := min(int(a), len(data))
		j := min(i+int(b), len(data))
		if got := bytes.Join(cut(data[:i], data[i:j], data[j:]), nil); !bytes.Equal(got, data) {
			t.Fatalf("%q became %q", data, got)
		}
		n := align.Cut(data)
		held := data[n:]
		if len(held) > align.MostHeld {
			t.Fatalf("%q holds %d bytes", data, len(held))
		}
		if len(held) > 0 {
			if utf8.FullRune(held) {
				t.Fatalf("%q: %q is held though it is whole or hopeless", data, held)
			}
		} else if k := lastLead(data); k >= 0 && !utf8.FullRune(data[k:]) {
			t.Fatalf("%q splits %q", data, data[k:])
		}
	})
}

// lastLead is where the last sequence begins, -1 when the bytes end in none.
func lastLead(data []byte) int {
	for k := len(data) - 1; k >= 0 && k >= len(data)-align.MostHeld; k-- {
		if data[k] >= 0xC0 {
			return k
		}
		if data[k] < 0x80 {
			return -1
		}
	}
	return -1
}
