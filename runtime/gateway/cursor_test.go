package gateway

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCursorTexts(t *testing.T) {
	for text, want := range map[string]Cursor{
		"":                    {},
		"0":                   {},
		"57":                  {Seq: 57},
		"57.52-1000-20":       {Seq: 57, Execs: []Position{{52, 1000, 20}}},
		"57.52-0-0.57-7-0":    {Seq: 57, Execs: []Position{{52, 0, 0}, {57, 7, 0}}},
		"9223372036854775807": {Seq: 1<<63 - 1},
	} {
		got, err := ParseCursor(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if text != "" && got.String() != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, bad := range []string{
		"-1", "+1", "01", " 1", "1 ", "1.", ".1", "1.1", "1.1-2", "1.1-2-3-4", "57.58-0-0", "57.0-0-0", "57.52--1-0", "57.5-0-0.5-0-0",
		"57.6-0-0.5-0-0", "x", "9223372036854775808", "1\n", strings.Repeat("1", 5000), "99" + strings.Repeat(".1-0-0", 70),
	} {
		if c, err := ParseCursor(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, c)
		}
	}
}

// However a cursor came about, its text brings it back.
func TestCursorSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cursor
		told := map[int64]Position{}
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			switch rapid.IntRange(0, 2).Draw(t, "event") {
			case 0:
				c = c.Advance(c.Seq + 1)
			case 1:
				if c.Seq == 0 {
					continue
				}
				p := Position{rapid.Int64Range(1, c.Seq).Draw(t, "exec"), rapid.Int64Min(0).Draw(t, "out"), rapid.Int64Min(0).Draw(t, "err")}
				before := c.String()
				next := c.Wrote(p)
				if c.String() != before {
					t.Fatal("a cursor was changed")
				}
				c, told[p.Seq] = next, p
			case 2:
				seq := rapid.Int64Range(1, c.Seq+1).Draw(t, "ended")
				c = c.Ended(seq)
				delete(told, seq)
			}
		}
		got, err := ParseCursor(c.String())
		if err != nil || got.String() != c.String() || got.Seq != c.Seq || len(got.Execs) != len(told) {
			t.Fatalf("%v became %v, %v", c, got, err)
		}
		for seq, p := range told {
			if got.Of(seq) != p {
				t.Fatalf("of %d: %v, want %v", seq, got.Of(seq), p)
			}
		}
		if p := got.Of(c.Seq + 1); p != (Position{Seq: c.Seq + 1}) {
			t.Fatalf("of an exec that nothing was told of: %v", p)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	f.Add("57.52-1000-20.55-0-7")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text)
		if err == nil && text != "" && c.String() != text {
			t.Fatalf("%q is also %q", text, c)
		}
	})
}
