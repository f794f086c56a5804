package local

import (
	"errors"
	"os"
	"sync"
)

// inMemory is how much of a stream is kept without a file.
const inMemory = 128 << 10

// tape keeps the newest bytes of one stream, in memory while they are few and in a file after that. Offset o
// lies at o % limit of either.
type tape struct {
	path  string // of the file
	limit int64

	mu         sync.Mutex
	memory     []byte
	file       *os.File
	spilled    bool
	start, end int64 // what is kept
	sealed     bool  // no more comes
}

func newTape(path string, limit int64) *tape { return &tape{path: path, limit: limit} }

// add appends. When it cannot keep bytes it keeps their number: offsets never lie.
func (t *tape) add(p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sealed || len(p) == 0 {
		return nil
	}
	from, end := t.end, t.end+int64(len(p))
	if skip := int64(len(p)) - t.limit; skip > 0 {
		p, from = p[skip:], from+skip
	}
	err := t.place(p, from)
	t.end = end
	t.start = max(t.start, end-t.limit)
	if err != nil {
		t.start = end
	}
	return err
}

func (t *tape) place(p []byte, from int64) error {
	if !t.spilled && from+int64(len(p)) > min(inMemory, t.limit) {
		if err := t.spill(); err != nil {
			return err
		}
	}
	for len(p) > 0 {
		at := from % t.limit
		n := min(int64(len(p)), t.limit-at)
		if err := t.putAt(p[:n], at); err != nil {
			return err
		}
		p, from = p[n:], from+n
	}
	return nil
}

func (t *tape) putAt(p []byte, at int64) error {
	if t.file != nil {
		_, err := t.file.WriteAt(p, at)
		return err
	}
	// Until the spill, offsets are indexes.
	t.memory = append(t.memory[:at], p...)
	return nil
}

// spill moves on to the file. Nothing wrapped before: memory holds no more than the limit.
func (t *tape) spill() error {
	f, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(t.memory, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	t.file, t.memory, t.spilled = f, nil, true
	return nil
}

// read fills buf from an offset on. missing is how many bytes from there are not kept; then n is 0. Both are
// 0 at the end.
func (t *tape) read(at int64, buf []byte) (n int, missing int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at >= t.end {
		return 0, 0, nil
	}
	if at < t.start {
		return 0, t.start - at, nil
	}
	buf = buf[:min(int64(len(buf)), t.end-at, t.limit-at%t.limit)]
	if !t.spilled {
		return copy(buf, t.memory[at:]), 0, nil
	}
	f := t.file
	if f == nil {
		if f, err = os.Open(t.path); err != nil {
			return 0, 0, err
		}
		defer f.Close()
	}
	n, err = f.ReadAt(buf, at%t.limit)
	return n, 0, err
}

func (t *tape) length() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// seal says that no more comes, and returns how much is kept.
func (t *tape) seal() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
	return t.end - t.start
}

// drop forgets the bytes and keeps their number.
func (t *tape) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
	if t.spilled {
		_ = os.Remove(t.path)
	}
	t.memory, t.start = nil, t.end
}
