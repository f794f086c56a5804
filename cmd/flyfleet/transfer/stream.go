package transfer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// cleaning is how long a copy that failed may take to remove its part.
const cleaning = 10 * time.Second

// fromStream copies stdin to one file. What was cut cannot go on, so nothing stays of it.
func (c *Copy) fromStream(ctx context.Context, e *engine) error {
	if at, err := c.stat(ctx, c.To); err == nil && at.kind == directory {
		return fmt.Errorf("%s: %w", c.To, syscall.EISDIR)
	}
	dir, name := split(c.To.Path)
	t := c.there(dir, e.tag)
	part := partOf(rand.Text(), name)
	sum, buffer := sha256.New(), make([]byte, pieceBytes)
	for offset := int64(0); ; {
		n, err := io.ReadFull(c.Stdin, buffer)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return errors.Join(fmt.Errorf("stdin: %w", err), c.clean(ctx, t, part, offset))
		}
		if n > 0 || offset == 0 {
			if err := t.write(ctx, part, offset, buffer[:n], offset == 0); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", c.To, bare(err)), c.clean(ctx, t, part, offset+1))
			}
		}
		sum.Write(buffer[:n])
		offset += int64(n)
		e.report.Bytes = offset
		e.progress(int64(n))
		if !last {
			continue
		}
		x := entry{name: name, mode: defaultMode, modified: time.Now()}
		if was, err := t.look(ctx, []string{name}); err == nil && was[0].kind == file {
			x.mode = was[0].mode
		}
		if err := t.finish(ctx, part, x, hex.EncodeToString(sum.Sum(nil))); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.To, bare(err)), c.clean(ctx, t, part, 1))
		}
		e.report.Files = 1
		return nil
	}
}

// clean removes the part of a stream, if any of it was written.
func (c *Copy) clean(ctx context.Context, t *there, part string, written int64) error {
	if written == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	return t.box.Remove(ctx, part, sandbox.RemoveOptions{Force: true})
}

// toStream copies one file to stdout.
func (c *Copy) toStream(ctx context.Context, e *engine) error {
	is, err := c.stat(ctx, c.From)
	switch {
	case err == nil && is.kind == directory:
		err = syscall.EISDIR
	case err == nil && is.kind != file:
		err = errSpecial
	}
	if err == nil {
		e.total = is.size
		e.report.Bytes, err = Stream(ctx, c.Machine, c.From.Path, c.Stdout, e.progress)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, bare(err))
	}
	e.report.Files = 1
	return nil
}

// Stream writes a machine's file to w, to its end as that is when it is reached, and returns how much that was.
func Stream(ctx context.Context, box sandbox.Sandbox, name string, w io.Writer, passed func(n int64)) (int64, error) {
	for offset := int64(0); ; {
		data, err := box.ReadFile(ctx, name, sandbox.Part{Offset: offset, Limit: pieceBytes})
		if err != nil {
			return offset, err
		}
		if _, err := w.Write(data); err != nil {
			return offset, err
		}
		offset += int64(len(data))
		if passed != nil {
			passed(int64(len(data)))
		}
		if len(data) < pieceBytes {
			return offset, nil
		}
	}
}
