// Package spool is the disk side of a machine's execs: what was asked, what happened, and every byte of
// output.
//
//	execs/<id>/spec    the request, values of the environment left out (JSON)
//	execs/<id>/state   what happened so far, a line an event, only ever appended to
//	execs/<id>/out     raw bytes of stdout, or of both streams, or of the pty; absent while empty
//	execs/<id>/err     raw bytes of stderr; absent while empty
//	execs/<id>/exit    the final record (JSON), by rename: whole or not there
//	fences/<hash>      highest fence seen of a scope, fsynced
//	lock               held by the one process that may write
//
// A byte's offset is its position in the file, so attaching is one pread and recovery is one stat. The
// directory of an exec is made before its process: whoever finds it never starts that id again. Nothing
// but fences is fsynced: the promise is to survive processes, not the kernel.
package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// Spool is an open spool directory. Methods are safe for concurrent use; calls for one exec that write
// the same file are the caller's to order.
type Spool struct {
	root string
	lock *os.File
}

// ErrHeld says that another process has the spool open.
var ErrHeld = errors.New("spool is held by another control server")

// Join opens a spool that another process holds the lock of: the server's, beside its keeper.
func Join(root string) *Spool { return &Spool{root: root} }

// Open makes the directory if need be, with mode 0700, and takes its lock until Close.
func Open(root string) (*Spool, error) {
	for _, dir := range []string{root, filepath.Join(root, "execs"), filepath.Join(root, "fences")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the spool: %w", err)
		}
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return nil, fmt.Errorf("make the spool private: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the spool: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrHeld, root)
		}
		return nil, fmt.Errorf("lock the spool %s: %w", root, err)
	}
	return &Spool{root: root, lock: lock}, nil
}

// Close gives the lock back.
func (s *Spool) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Dir is the directory of an exec. Only ids that wire.IDTime accepts name one.
func (s *Spool) Dir(id string) string { return filepath.Join(s.root, "execs", id) }

// File is the path of one of an exec's files: "out", "err" and the others of the package's layout.
func (s *Spool) File(id, name string) string { return filepath.Join(s.root, "execs", id, name) }

// Create makes an exec's directory: the point of no return. os.ErrExist in the chain says that the id
// is taken.
func (s *Spool) Create(id string) error {
	if _, err := wire.IDTime(id); err != nil {
		return fmt.Errorf("spool exec: %w", err)
	}
	if err := os.Mkdir(s.Dir(id), 0o700); err != nil {
		return fmt.Errorf("spool exec: %w", err)
	}
	return nil
}

// Has says whether an id is taken.
func (s *Spool) Has(id string) bool {
	if _, err := wire.IDTime(id); err != nil {
		return false
	}
	_, err := os.Stat(s.Dir(id))
	return err == nil
}

// IDs are the execs of the spool, newest first.
func (s *Spool) IDs() ([]string, error) {
	dir, err := os.Open(filepath.Join(s.root, "execs"))
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	ids := names[:0]
	for _, n := range names {
		if _, err := wire.IDTime(n); err == nil {
			ids = append(ids, n)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(ids)))
	return ids, nil
}

// Size is how many bytes of a stream's file are there; an absent file has none.
func (s *Spool) Size(id, name string) (uint64, error) {
	info, err := os.Stat(s.File(id, name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("size of a spool file: %w", err)
	}
	return uint64(info.Size()), nil
}

// Free is how many bytes an unprivileged writer could still store.
func (s *Spool) Free() (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return 0, fmt.Errorf("free space of the spool: %w", err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// replace writes a file by rename, so that a reader sees all of it or none.
func replace(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func trimNewline(s string) string { return strings.TrimSuffix(s, "\n") }
