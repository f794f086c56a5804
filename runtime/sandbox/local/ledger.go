package local

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Bounds of what is remembered: ids, and bytes of results and output together.
const (
	mostEntries = 20_000
	mostKept    = 1 << 30
	oldest      = 24 * time.Hour
)

// ledger remembers which ids were used, for what, and what came of it. When it is full the oldest that
// ended goes, and with it every older id: an id that is not remembered and could have been is expired, so
// that nothing is ever done a second time because it was forgotten.
type ledger struct {
	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
	settled []*entry // in the order of their ends
	kept    int64
	// floor is the greatest id that went.
	floor string

	mostEntries int
	mostKept    int64
}

// entry is one id's use. value and err are set before done is closed.
type entry struct {
	id     string
	digest [sha256.Size]byte
	done   chan struct{}
	value  any
	err    error
	size   int64
	// command is what runs or ran under the id, when it is a command's.
	command *command
	// forbidden: nothing ever runs under the id.
	forbidden bool
}

func newLedger() *ledger {
	return &ledger{entries: map[string]*entry{}, mostEntries: mostEntries, mostKept: mostKept}
}

// claim takes an id for a call. mine is false when the same call took it before.
func (l *ledger) claim(id string, digest [sha256.Size]byte) (e *entry, mine bool, err error) {
	return l.claimCommand(id, digest, nil, "")
}

// claimCommand takes an id for a command.
func (l *ledger) claimCommand(id string, digest [sha256.Size]byte, c *command, spool string) (e *entry, mine bool, err error) {
	if err := checkID(id); err != nil {
		return nil, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false, errClosed
	}
	if e := l.entries[id]; e != nil {
		switch {
		case e.forbidden:
			return nil, false, sandbox.ErrForbidden
		case e.digest != digest:
			return nil, false, sandbox.ErrConflict
		}
		return e, false, nil
	}
	if id <= l.floor || madeAt(id).Before(time.Now().Add(-oldest)) {
		return nil, false, sandbox.ErrExpired
	}
	e = &entry{id: id, digest: digest, done: make(chan struct{}), command: c}
	if c != nil {
		c.name(e, spool)
	}
	l.entries[id] = e
	return e, true, nil
}

// find is the entry of an id, nil if there is none.
func (l *ledger) find(id string) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[id]
}

// forbid takes an id so that nothing runs under it. It says whether that is so.
func (l *ledger) forbid(id string) (bool, error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[id]; e != nil {
		return e.forbidden, nil
	}
	if l.closed {
		return false, errClosed
	}
	e := &entry{id: id, forbidden: true, done: make(chan struct{})}
	close(e.done)
	l.entries[id] = e
	l.settled = append(l.settled, e)
	l.trim()
	return true, nil
}

// settle puts a result on record.
func (l *ledger) settle(e *entry, value any, err error, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.value, e.err, e.size = value, err, size
	close(e.done)
	l.settled = append(l.settled, e)
	l.kept += size
	l.trim()
}

// grown corrects an entry's size: output went, or a command ended.
func (l *ledger) grown(e *entry, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept += size - e.size
	e.size = size
}

// abandon gives an id back that was not used. Whoever waits for it is told to come again.
func (l *ledger) abandon(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, e.id)
	e.err = &sandbox.UnavailableError{Reason: "the first call under this id was broken off"}
	close(e.done)
}

// trim lets the oldest go. The caller holds mu.
func (l *ledger) trim() {
	for len(l.settled) > 0 && (len(l.entries) > l.mostEntries || l.kept > l.mostKept) {
		e := l.settled[0]
		l.settled[0] = nil
		l.settled = l.settled[1:]
		l.kept -= e.size
		l.floor = max(l.floor, e.id)
		delete(l.entries, e.id)
		if e.command != nil {
			e.command.drop()
		}
		if r, is := e.value.(*recording); is && r != nil {
			r.tape.drop()
		}
	}
}

func (l *ledger) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// close refuses whatever comes and returns the commands that may still run.
func (l *ledger) close() []*command {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var running []*command
	for _, e := range l.entries {
		if e.command != nil {
			running = append(running, e.command)
		}
	}
	return running
}

// checkID says whether an id is a UUIDv7 as one writes it.
func checkID(id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return fmt.Errorf("an id that is no UUIDv7: %w", syscall.EINVAL)
	}
	return nil
}

// madeAt is the time in a UUIDv7: its first 48 bits are milliseconds (RFC 9562, 5.7).
func madeAt(id string) time.Time {
	u := uuid.MustParse(id)
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:8]) >> 16))
}
