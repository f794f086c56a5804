package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ahead is how many pieces are read while one is written.
const ahead = 2

// large copies one file in pieces, behind what an earlier copy has brought of it.
func (e *engine) large(ctx context.Context, x entry) error {
	part := partOf(e.tag, x.name)
	offset, err := e.proven(ctx, x, part)
	if err != nil {
		return err
	}
	e.report.Resumed += offset
	e.progress(offset)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sums := e.sumAhead(ctx, x)
	err = e.pieces(ctx, x, part, offset)
	if err != nil {
		cancel()
	}
	sum := <-sums
	switch {
	case err == nil:
		err = sum.err
	case unreadable(err):
		e.report.failed(x.name, bare(err))
		return nil
	}
	if err == nil {
		err = e.to.finish(ctx, part, x, sum.text)
	}
	if errors.Is(err, errDiffers) {
		e.report.failed(x.name, errDiffers)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Printable(x.name), bare(err))
	}
	e.report.Files++
	return nil
}

// sourceError is one of reading.
type sourceError struct{ error }

func (s sourceError) Unwrap() error { return s.error }

// unreadable reports whether an error is about this file of the source, and not about a machine or a disk.
func unreadable(err error) bool {
	var source sourceError
	var named *fs.PathError
	return errors.As(err, &source) && errors.As(err, &named)
}

// proven is from where the part file is to be gone on with: as far as its hash is the source's.
func (e *engine) proven(ctx context.Context, x entry, part string) (int64, error) {
	found, err := e.to.look(ctx, []string{part})
	if err != nil {
		return 0, err
	}
	has := found[0]
	if has.kind != file || has.size > x.size {
		return 0, nil
	}
	offset := has.size / align * align
	if has.size == x.size {
		offset = has.size
	}
	if offset == 0 {
		return 0, nil
	}
	ours, err := e.to.hash(ctx, []entry{{name: part, size: offset}})
	if err != nil {
		return 0, err
	}
	theirs, err := e.from.hash(ctx, []entry{{name: x.name, size: offset}})
	if err != nil {
		return 0, err
	}
	if ours[0] == "" || ours[0] != theirs[0] {
		return 0, nil
	}
	return offset, nil
}

type summed struct {
	text string
	err  error
}

// sumAhead hashes the source while it is copied.
func (e *engine) sumAhead(ctx context.Context, x entry) <-chan summed {
	out := make(chan summed, 1)
	go func() {
		sums, err := e.from.hash(ctx, []entry{x})
		if err != nil {
			out <- summed{err: err}
			return
		}
		out <- summed{text: sums[0]}
	}()
	return out
}

type piece struct {
	data []byte
	err  error
}

// readAhead reads the pieces of a file in order, some at a time. It ends with the channel, or with ctx.
func (e *engine) readAhead(ctx context.Context, x entry, offset int64) <-chan chan piece {
	queue := make(chan chan piece, ahead-1)
	go func() {
		defer close(queue)
		for ; offset < x.size; offset += pieceBytes {
			next := make(chan piece, 1)
			select {
			case queue <- next:
			case <-ctx.Done():
				return
			}
			go func(offset int64) {
				want := min(pieceBytes, x.size-offset)
				data, err := e.from.read(ctx, x.name, offset, want)
				if err == nil && int64(len(data)) < want {
					err = errDiffers
				}
				if err != nil {
					err = sourceError{err}
				}
				next <- piece{data, err}
			}(offset)
		}
	}()
	return queue
}

func (e *engine) pieces(ctx context.Context, x entry, part string, offset int64) error {
	ctx, cancel := context.WithCancel(ctx)
	queue := e.readAhead(ctx, x, offset)
	defer func() {
		cancel()
		for next := range queue {
			<-next
		}
	}()
	for next := range queue {
		p := <-next
		if p.err != nil {
			return p.err
		}
		if err := e.to.write(ctx, part, offset, p.data, offset == 0); err != nil {
			return err
		}
		offset += int64(len(p.data))
		e.report.Bytes += int64(len(p.data))
		e.progress(int64(len(p.data)))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
