package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Cursor is how far a client has been told of a session: all entries up to Seq, and of the commands that run
// at that point the output up to Execs. Its text is the seq alone, or the seq and a part a command: 57.52-1000-20 is entry
// 57, and of the command whose exec_started is entry 52 all stdout below 1000 and all stderr below 20. A command that
// is not named has been told nothing of.
type Cursor struct {
	Seq   int64
	Execs []Position
}

// Position is how far the output of one command was told.
type Position struct {
	// Seq of the command's exec_started.
	Seq int64
	// Raw byte offsets.
	Stdout, Stderr int64
}

// Bounds of a cursor's text: it comes from clients.
const (
	maxCursor    = 4096
	maxPositions = 64
)

var errCursor = errors.New("not a cursor of this API")

// ParseCursor reads a cursor's text; "" is before the first entry.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	parts := strings.Split(text, ".")
	if len(text) > maxCursor || len(parts) > maxPositions+1 {
		return Cursor{}, errCursor
	}
	var c Cursor
	var err error
	if c.Seq, err = count(parts[0]); err != nil {
		return Cursor{}, err
	}
	for _, part := range parts[1:] {
		numbers := strings.Split(part, "-")
		if len(numbers) != 3 {
			return Cursor{}, errCursor
		}
		var p Position
		for i, to := range []*int64{&p.Seq, &p.Stdout, &p.Stderr} {
			if *to, err = count(numbers[i]); err != nil {
				return Cursor{}, err
			}
		}
		last := int64(0)
		if n := len(c.Execs); n > 0 {
			last = c.Execs[n-1].Seq
		}
		if p.Seq <= last || p.Seq > c.Seq {
			return Cursor{}, errCursor
		}
		c.Execs = append(c.Execs, p)
	}
	return c, nil
}

// count reads digits as they are written: one text a number.
func count(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, errCursor
	}
	return n, nil
}

func (c Cursor) String() string {
	var b strings.Builder
	fmt.Fprint(&b, c.Seq)
	for _, p := range c.Execs {
		fmt.Fprintf(&b, ".%d-%d-%d", p.Seq, p.Stdout, p.Stderr)
	}
	return b.String()
}

// Advance is the cursor after an entry. Commands that the entry ended are left out by Ended.
func (c Cursor) Advance(seq int64) Cursor {
	return Cursor{Seq: seq, Execs: slices.Clone(c.Execs)}
}

// Wrote is the cursor after output of the command that entry seq started.
func (c Cursor) Wrote(p Position) Cursor {
	execs := slices.Clone(c.Execs)
	at, found := slices.BinarySearchFunc(execs, p.Seq, func(a Position, seq int64) int { return cmp.Compare(a.Seq, seq) })
	if found {
		execs[at] = p
	} else {
		execs = slices.Insert(execs, at, p)
	}
	return Cursor{Seq: c.Seq, Execs: execs}
}

// Ended is the cursor once all of a command is told.
func (c Cursor) Ended(seq int64) Cursor {
	return Cursor{Seq: c.Seq, Execs: slices.DeleteFunc(slices.Clone(c.Execs), func(p Position) bool { return p.Seq == seq })}
}

// Of is how far the command that entry seq started was told.
func (c Cursor) Of(seq int64) Position {
	for _, p := range c.Execs {
		if p.Seq == seq {
			return p
		}
	}
	return Position{Seq: seq}
}

func (c Cursor) names(seq int64) bool {
	return slices.ContainsFunc(c.Execs, func(p Position) bool { return p.Seq == seq })
}

func (p Position) of(stream store.Stream) int64 {
	if stream == store.Stderr {
		return p.Stderr
	}
	return p.Stdout
}
