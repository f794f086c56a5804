package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Local lets sessions work on this computer, in a directory each. It isolates nothing, and its commands end with
// this process: for trying things out, with one replica. Close it.
type Local struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex
	boxes map[uuid.UUID]*local.Sandbox
}

var _ Machines = (*Local)(nil)

// NewLocal keeps the sessions' directories below dir.
func NewLocal(dir string, log *slog.Logger) *Local {
	return &Local{dir: dir, log: log, boxes: map[uuid.UUID]*local.Sandbox{}}
}

// Open gives the session's directory, made when it is missing.
func (l *Local) Open(_ context.Context, claim store.Claim) (Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	box := l.boxes[claim.Session]
	if box == nil {
		dir := filepath.Join(l.dir, claim.Session.String())
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return Place{}, fmt.Errorf("open the session's directory: %w", err)
		}
		var err error
		if box, err = local.Open(local.Options{Dir: dir, Log: l.log}); err != nil {
			return Place{}, err
		}
		l.boxes[claim.Session] = box
	}
	return Place{Box: box, Machine: "local"}, nil
}

// Close ends all commands.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all error
	for _, box := range l.boxes {
		all = errors.Join(all, box.Close())
	}
	clear(l.boxes)
	return all
}
