// Package local is the sandbox of this computer: commands are children of this process, files its own. It isolates
// nothing, and is meant for trying things out and for tests.
//
// Commands, their output and what Once remembers live as long as the Sandbox that Open returned; all of it is bounded.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Options of Open.
type Options struct {
	// Dir is the directory that relative names and commands start in. It must exist.
	Dir string
	// Log gets what concerns nobody's call; nil is slog.Default.
	Log *slog.Logger
}

// Sandbox is this computer, and a view on it.
type Sandbox struct {
	*computer
	place
	// once is the id of a view that Once made.
	once string
}

// computer is what all views share.
type computer struct {
	log    *slog.Logger
	epoch  string
	user   *user.User
	ledger *ledger
	// workspace is the Dir of the first view: home of all commands.
	workspace string
	// spool is a private directory for output that memory is too small for.
	spool string
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// Open makes a sandbox of a directory. Close it, or its commands run on.
func Open(o Options) (*Sandbox, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open a local sandbox: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open a local sandbox: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open a local sandbox: %s is not a directory", dir)
	}
	spool, err := os.MkdirTemp("", "flyfleet-sandbox-")
	if err != nil {
		return nil, fmt.Errorf("open a local sandbox: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &computer{
		log: o.Log, epoch: "local-" + uuid.NewString(), user: whoami(), ledger: newLedger(), spool: spool, workspace: dir,
	}
	return &Sandbox{computer: c, place: place{dir: dir}}, nil
}

// Close kills what still runs, waits for it, and drops all output. The files of Dir stay.
func (s *Sandbox) Close() error {
	running := s.ledger.close()
	for _, c := range running {
		c.end(sandbox.CauseStopping)
	}
	for _, c := range running {
		c.shut()
	}
	if err := os.RemoveAll(s.spool); err != nil {
		return fmt.Errorf("close a local sandbox: %w", err)
	}
	return nil
}

// Dir is the absolute directory that relative names and commands start in.
func (s *Sandbox) Dir() string { return s.dir }

// In is the same sandbox with another Dir.
func (s *Sandbox) In(dir string) sandbox.Sandbox {
	view := *s
	if strings.HasPrefix(dir, "/") {
		view.dir = filepath.Clean(dir)
	} else {
		view.dir = filepath.Join(s.dir, dir)
	}
	return &view
}

// Once is a view for one operation that must not be done twice.
func (s *Sandbox) Once(id string) sandbox.Sandbox {
	view := *s
	view.once = id
	return &view
}

// Describe says which computer answers.
func (s *Sandbox) Describe(ctx context.Context) (sandbox.Description, error) {
	if err := ended(ctx); err != nil {
		return sandbox.Description{}, err
	}
	return sandbox.Description{Epoch: s.epoch, User: s.user.Username}, nil
}

func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// whoami is the user of this process, who may have no name and no home.
func whoami() *user.User {
	if u, err := user.Current(); err == nil {
		return u
	}
	uid := strconv.Itoa(os.Geteuid())
	return &user.User{Uid: uid, Username: uid, HomeDir: "/"}
}

var errClosed = &sandbox.UnavailableError{Reason: "it was closed", Refused: true, Err: errors.New("closed")}
