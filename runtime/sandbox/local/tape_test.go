package local

import (
	"bytes"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// all reads a tape from an offset to its end.
func (t *tape) all(at int64) (data []byte, missing int64, err error) {
	buf := make([]byte, 777)
	for {
		n, gone, err := t.read(at, buf)
		if err != nil || n == 0 && gone == 0 {
			return data, missing, err
		}
		data = append(data, buf[:n]...)
		missing += gone
		at += int64(n) + gone
	}
}

func TestTapeKeepsTheNewestBytesAndCountsAll(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		limit := rapid.OneOf(rapid.Int64Range(1, 300), rapid.Int64Range(inMemory-10, 2*inMemory)).Draw(t, "limit")
		tp := newTape(filepath.Join(dir, "tape"), limit)
		var written []byte
		for _, size := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 500), rapid.IntRange(inMemory/2, inMemory+500)), 0, 12).Draw(t, "sizes") {
			piece := make([]byte, size)
			for i := range piece {
				piece[i] = byte((len(written) + i) * 31 >> 3)
			}
			written = append(written, piece...)
			if err := tp.add(piece); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "sealed") {
			if kept := tp.seal(); kept != min(limit, int64(len(written))) {
				t.Fatalf("%d bytes are kept of %d, with a limit of %d", kept, len(written), limit)
			}
			if err := tp.add([]byte("late")); err != nil {
				t.Fatal(err)
			}
		}
		from := rapid.IntRange(0, len(written)).Draw(t, "from")
		got, missing, err := tp.all(int64(from))
		if err != nil {
			t.Fatal(err)
		}
		first := max(from, len(written)-int(limit))
		if missing != int64(first-from) || !bytes.Equal(got, written[first:]) {
			t.Fatalf("from %d: %d missing and %d bytes, want %d and %d", from, missing, len(got), first-from, len(written)-first)
		}
		tp.drop()
		if got, missing, err := tp.all(0); err != nil || len(got) > 0 || missing != int64(len(written)) || tp.length() != int64(len(written)) {
			t.Fatalf("after drop: %d bytes, %d missing, length %d, error %v", len(got), missing, tp.length(), err)
		}
	})
}

func TestTapeThatCannotBeKeptTellsWhatIsMissing(t *testing.T) {
	tp := newTape(filepath.Join(t.TempDir(), "no", "such", "directory"), 1<<30)
	if err := tp.add(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := tp.add(make([]byte, inMemory)); err == nil {
		t.Fatal("a tape without a place was kept")
	}
	got, missing, err := tp.all(0)
	if err != nil || len(got) != 0 || missing != 1000+inMemory {
		t.Errorf("%d bytes, %d missing, error %v", len(got), missing, err)
	}
}

func TestCutHoldsNothingBackButTheBeginningOfACharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.String().Draw(t, "text"))
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		n := cut(text[:at])
		if !utf8.Valid(text[:n]) || at-n >= utf8.UTFMax || n < at && utf8.Valid(text[:at]) {
			t.Fatalf("%q of %q is cut at %d", text[:at], text, n)
		}
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		if n := cut(raw); n < len(raw)-3 || n > len(raw) {
			t.Fatalf("%q is cut at %d", raw, n)
		}
	})
}
