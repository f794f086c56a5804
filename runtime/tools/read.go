package tools

import (
	"bytes"
	"context"
	"fmt"

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
	window := lines{first: max(args.Line, 1), most: args.Lines}
	for offset := int64(0); !window.done && offset < readMost; offset += readPiece {
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
		left := window.take(piece)
		if left == 0 && len(piece) < readPiece {
			window.done, window.ended = true, true
		}
	}
	return Result{Content: window.content(args.Path)}, nil
}

// lines collects some lines of a file that comes in pieces.
type lines struct {
	first, most int
	// passed is how many line ends have gone by.
	passed int
	kept   Cap
	// done: no more is needed; ended: the file has no more.
	done, ended bool
	size        int64
}

// take returns how many bytes of the piece are beyond the last line.
func (l *lines) take(piece []byte) (left int) {
	l.size += int64(len(piece))
	for len(piece) > 0 && !l.done {
		line := piece
		whole := false
		if end := bytes.IndexByte(piece, '\n'); end >= 0 {
			line, whole = piece[:end+1], true
		}
		piece = piece[len(line):]
		if l.passed+1 >= l.first {
			_, _ = l.kept.Write(line)
		}
		if whole {
			l.passed++
		}
		l.done = l.passed+1 >= l.first+l.most
	}
	return len(piece)
}

func (l *lines) content(path string) []byte {
	switch {
	case l.size == 0:
		return []byte("[the file is empty]")
	case l.kept.total == 0 && l.ended:
		return fmt.Appendf(nil, "[%s has %d lines]", path, l.passed)
	case !l.ended:
		return fmt.Appendf(l.kept.Bytes(), "\n[the file goes on; line %d is next]\n", l.passed+1)
	}
	return l.kept.Bytes()
}
