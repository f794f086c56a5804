package killtest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ledger holds what was asked to run, for the comparison with what ran.
type ledger struct {
	mu    sync.Mutex
	asked map[string]bool // true once its result was right
	bytes int64
}

func newLedger() *ledger { return &ledger{asked: map[string]bool{}} }

func (l *ledger) ask() string {
	id := newID()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[id] = false
	return id
}

// right notes that an exec's code and all its bytes were.
func (l *ledger) right(id string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[id] = true
	l.bytes += bytes
}

func (l *ledger) size() (execs int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked), l.bytes
}

// exact compares with the lines that the commands themselves left in the workspace, and counts those
// that were right and ran once. Any other is the test's failure.
func (l *ledger) exact(t *testing.T, data string) int {
	t.Helper()
	f, err := os.Open(filepath.Join(data, "workspace", "count"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		ran[lines.Text()]++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	exact, wrong := 0, 0
	for id, ok := range l.asked {
		if ok && ran[id] == 1 {
			exact++
			continue
		}
		if wrong++; wrong <= 5 || ran[id] > 1 {
			t.Errorf("exec %s ran %d times, result right: %v", id, ran[id], ok)
		}
	}
	for id := range ran {
		if _, ok := l.asked[id]; !ok {
			t.Errorf("exec %s ran and was never asked for", id)
		}
	}
	return exact
}

// tally adds up what the parts of the matrix saw.
type tally struct {
	mu                  sync.Mutex
	execs, kills, exact int
}

func (s *tally) add(execs, kills, exact int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs, s.kills, s.exact = s.execs+execs, s.kills+kills, s.exact+exact
}

func (s *tally) String() string {
	return fmt.Sprintf("kill matrix: ok execs=%d kills=%d exact=%d", s.execs, s.kills, s.exact)
}
