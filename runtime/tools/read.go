package tools

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	// readPiece is how much of a file is read at a time, and readMost how far into one lines are looked for.
	readPiece = 1 << 20
	readMost  = 64 << 20
	// readLines is how many lines are shown when nothing is said.
	readLines = 2000
	// sniffed is how far a file is searched for a NUL, which no text has.
	sniffed = 8 << 10
)

func runRead(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Path  string `json:"path"`
		Line  int    `json:"line"`
		Lines int    `json:"lines"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	if args.Lines == 0 {
		args.Lines = readLines
	}
	window := lines{call: call, first: max(args.Line, 1), most: args.Lines, from: unknown, to: unknown}
	for offset := int64(0); !window.decided() && offset < readMost; offset += readPiece {
		piece, err := call.Box.ReadFile(ctx, args.Path, sandbox.Part{Offset: offset, Limit: readPiece})
		if err != nil {
			return fault(ctx, err)
		}
		if offset == 0 && bytes.IndexByte(piece[:min(len(piece), sniffed)], 0) >= 0 {
			info, err := call.Box.Stat(ctx, args.Path)
			if err != nil {
				return fault(ctx, err)
			}
			return Result{Content: fmt.Appendf(nil, "[a binary file of %d bytes; look at it with exec]", info.Size)}, nil
		}
		window.take(piece)
		if len(piece) < readPiece {
			window.end()
		}
	}
	return Result{Content: window.content(args.Path), Masks: window.masks}, nil
}

// unknown is an offset that was not found yet.
const unknown = math.MaxInt64

// lines collects some lines of a file that comes in pieces. All of the file up to them is masked, and what is behind them as
// far as a secret may go on that begins in them: it must not be known by its middle or its beginning only.
type lines struct {
	call        Call
	first, most int
	// passed is how many line ends have gone by.
	passed int
	// from and to are where the lines begin and end in the file.
	from, to int64
	// size is how much has come, and at how much of it is decided.
	size, at int64
	// ended: the file has no more.
	ended bool
	kept  Cap
	masks int
}

func (l *lines) decided() bool { return l.ended || l.at >= l.to }

func (l *lines) take(piece []byte) {
	before := l.size
	l.size += int64(len(piece))
	for start := 0; start < len(piece) && l.to == unknown; {
		if l.from == unknown && l.passed+1 >= l.first {
			l.from = before + int64(start)
		}
		end := bytes.IndexByte(piece[start:], '\n')
		if end < 0 {
			break
		}
		start += end + 1
		if l.passed++; l.passed+1 >= l.first+l.most {
			l.to = before + int64(start)
		}
	}
	from := min(max(l.from-before, 0), int64(len(piece)))
	to := min(max(l.to-before, from), int64(len(piece)))
	l.keep(l.call.mask(piece[:from], More))
	l.keep(l.call.mask(piece[from:to], More))
	for rest := piece[to:]; len(rest) > 0 && !l.decided(); {
		// In small pieces: where something was masked no place in it is known, and all of it is shown.
		n := min(len(rest), 256)
		l.keep(l.call.mask(rest[:n], More))
		rest = rest[n:]
	}
}

func (l *lines) end() {
	if !l.decided() {
		l.keep(l.call.mask(nil, Last))
	}
	l.ended = l.to >= l.size
}

// keep takes what of a piece lies in the lines.
func (l *lines) keep(clean Clean) {
	begin := l.at
	l.at += int64(clean.Raw)
	if l.at <= l.from || begin >= l.to {
		return
	}
	data := clean.Data
	if clean.Masks == 0 {
		data = data[max(l.from-begin, 0):min(l.to-begin, int64(len(data)))]
	}
	_, _ = l.kept.Write(data)
	l.masks += clean.Masks
}

func (l *lines) content(path string) []byte {
	switch {
	case l.size == 0:
		return []byte("[the file is empty]")
	case l.from == unknown && l.ended:
		return fmt.Appendf(nil, "[%s has %d lines]", path, l.passed)
	case !l.ended:
		return fmt.Appendf(l.kept.Bytes(), "\n[the file goes on; line %d is next]\n", l.passed+1)
	}
	return l.kept.Bytes()
}
