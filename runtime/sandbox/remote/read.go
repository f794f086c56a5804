package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	// smallRead is the largest part of a file that comes with the first answer.
	smallRead = 4 << 20
	// block is the unit of a larger part, and window how many of them may be on their way: the machine is asked for no more
	// than it keeps (bulkCap), so that a file of any size passes through a spool of any size whole.
	block   = 1 << 20
	window  = 4
	bulkCap = (window + 2) * block
	// onceCap is how much of a read the machine keeps for a repeat on a Once view.
	onceCap = 32 << 20
)

// ReadFile returns a part of a file.
func (s *Sandbox) ReadFile(ctx context.Context, name string, part sandbox.Part) ([]byte, error) {
	o, err := s.begin(ctx, "read")
	if err != nil {
		return nil, err
	}
	content, err := o.readFile(ctx, name, part, "")
	return content, o.about(name, err)
}

func (o operation) readFile(ctx context.Context, name string, part sandbox.Part, job string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if part.Offset < 0 || part.Limit < 0 {
		return nil, syscall.EINVAL
	}
	if part.Limit > sandbox.MaxRead {
		part.Limit = sandbox.MaxRead
	}
	size, content, err := o.readSmall(ctx, name, part, job)
	if err != nil || size <= smallRead {
		return content, err
	}
	var b []byte
	err = o.readBulk(ctx, name, part, size, job+"b", func(size int64) error {
		b = make([]byte, 0, size)
		return nil
	}, func(data []byte) error {
		b = append(b, data...)
		return nil
	})
	return b, err
}

// readSmall returns the size of a part of a file, and the part when it is small.
func (o operation) readSmall(ctx context.Context, name string, part sandbox.Part, label string) (int64, []byte, error) {
	answer, err := o.run(ctx, job{
		script: readScript, part: label, dir: o.start(name), cap: smallRead + block,
		args: []string{spell(name), number(part.Offset), number(part.Limit), number(sandbox.MaxRead), number(smallRead)},
	})
	if err != nil {
		return 0, nil, err
	}
	_, rest, err := statusOf(answer)
	if err != nil {
		return 0, nil, err
	}
	text, content, ok := bytes.Cut(rest, []byte("\n"))
	size, err := strconv.ParseInt(string(text), 10, 64)
	if !ok || err != nil {
		return 0, nil, errTorn
	}
	return size, content, nil
}

// readBulk reads a part of a file from one open of it: the size it has first, then its bytes, fewer when the file becomes shorter. guess
// is the size that it had when it was looked at.
func (o operation) readBulk(ctx context.Context, name string, part sandbox.Part, guess int64, label string, size func(int64) error, take func([]byte) error) error {
	asked := newAsks()
	defer asked.close()
	r := &bulk{asks: asked, size: size, take: take}
	r.grant(window)
	j := job{
		script: bulkScript, part: label, dir: o.start(name), open: true, source: asked, cap: bulkCap, take: r.add,
		args: []string{spell(name), number(part.Offset), number(part.Limit), number(sandbox.MaxRead)},
	}
	if o.once && guess <= onceCap {
		j.cap = onceCap + 2*block
	}
	if _, err := o.run(ctx, j); err != nil {
		if errors.Is(err, errGap) && o.once {
			return fmt.Errorf("%w: the answer was too large to be kept", sandbox.ErrExpired)
		}
		return err
	}
	if !r.headed {
		return errTorn
	}
	return r.status
}

// bulk takes a bulk answer apart and asks for more as it is taken.
type bulk struct {
	head   []byte // of the status and size, until they are whole
	headed bool
	status error

	left  int64 // bytes that are wanted
	had   int64
	asked int64 // blocks, in all
	asks  *asks
	size  func(int64) error
	take  func([]byte) error
}

// grant asks for blocks as long as fewer than so many are on their way.
func (b *bulk) grant(most int64) {
	for ; b.asked*block-b.had < most*block; b.asked++ {
		b.asks.add()
	}
}

// open reads what comes before the content, once it is whole.
func (b *bulk) open(data []byte) (rest []byte, err error) {
	b.head = append(b.head, data...)
	_, rest, b.status = statusOf(b.head)
	switch {
	case errors.Is(b.status, errTorn):
		return nil, nil // the line is not whole yet
	case b.status != nil:
		b.headed = true
		b.asks.finish()
		return nil, nil //nolint:nilerr // status is what the caller gets
	}
	text, rest, whole := bytes.Cut(rest, []byte("\n"))
	if !whole {
		return nil, nil
	}
	b.headed = true
	if b.left, err = strconv.ParseInt(string(text), 10, 64); err != nil {
		return nil, errTorn
	}
	return rest, b.size(b.left)
}

func (b *bulk) add(data []byte) error {
	if !b.headed {
		rest, err := b.open(data)
		if err != nil || !b.headed || b.status != nil {
			return err
		}
		data = rest
	}
	b.had += int64(len(data))
	data = data[:min(int64(len(data)), b.left)]
	b.left -= int64(len(data))
	if len(data) > 0 {
		if err := b.take(data); err != nil {
			return err
		}
	}
	if b.left == 0 {
		b.asks.finish()
		return nil
	}
	b.grant(min(window, (b.left+block-1)/block))
	return nil
}

// asks is the stdin of a bulk read: a line a block. Whoever reads it waits for lines until there are no more to come.
type asks struct {
	mu     sync.Mutex
	more   sync.Cond
	lines  int
	over   bool
	closed bool
}

func newAsks() *asks {
	a := &asks{}
	a.more.L = &a.mu
	return a
}

func (a *asks) add() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines++
	a.more.Broadcast()
}

func (a *asks) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.more.Broadcast()
}

func (a *asks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.more.Broadcast()
}

// Read gives the lines that are there.
func (a *asks) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.lines == 0 && !a.over && !a.closed {
		a.more.Wait()
	}
	if a.closed {
		return 0, io.ErrClosedPipe
	}
	if a.lines == 0 {
		return 0, io.EOF
	}
	n := min(a.lines, len(p))
	for i := range n {
		p[i] = '\n'
	}
	a.lines -= n
	return n, nil
}
