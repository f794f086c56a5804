//go:build linux

// Package spool is the disk side of a machine's execs: what was asked, what happened, and every byte of
// output.
//
//	execs/<id>/state   what was asked, what happened, and how it ended: a line each, only ever appended
//	                   to; request (values of the environment left out) and exit are JSON
//	execs/<id>/out     raw bytes of stdout, or of both streams, or of the terminal; may be absent while empty
//	execs/<id>/err     raw bytes of stderr; may be absent while empty
//	execs/<id>/clock   how much of its time limits has passed, where it has any (JSON)
//	tombs/<day>        what is left of collected execs, a line each (JSON)
//	fences/<hash>      highest fence seen of a scope, fsynced
//	stock/<n>          directories of execs to come, with empty files, made while nothing starts
//	reserve            blocks for records on a full disk
//	lock               held by the keeper
//
// A byte's offset is its position in the file, so attaching is one pread and recovery is one stat; what is
// not stored is a hole in the file and a line in the state. The directory of an exec is made before its
// process: whoever finds it never starts that id again. Nothing but fences and tombstones is fsynced,
// unless an exec asks for it: the promise is to survive processes, not the kernel.
//
// Beside the spool on the volume there is one aside, on another disk, for execs that start while the volume
// is full: so that the command which makes room can run.
package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// Spool is an open spool directory. Methods are safe for concurrent use; calls for one exec that write
// the same file are the caller's to order.
type Spool struct {
	root, aside string
	lock        *os.File
	stock       *stock // the holder of the lock has it alone
	asides      asides
}

// ErrHeld says that another process has the spool open.
var ErrHeld = errors.New("spool is held by another control server")

// Join opens a spool that another process holds the lock of: the server's, beside its keeper.
func Join(root, aside string) *Spool { return &Spool{root: root, aside: aside} }

// Open makes the directories if need be, with mode 0700, and takes the lock until Close.
func Open(root, aside string) (*Spool, error) {
	s := Join(root, aside)
	for _, dir := range []string{root, s.under("execs"), s.under("fences"), s.under("tombs"), aside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the spool: %w", err)
		}
	}
	for _, dir := range []string{root, aside} {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the spool private: %w", err)
		}
	}
	lock, err := os.OpenFile(s.under("lock"), os.O_CREATE|os.O_RDWR, 0o600)
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
	if s.stock, err = openStock(s.under("stock")); err != nil {
		lock.Close()
		return nil, fmt.Errorf("make the spool: %w", err)
	}
	s.lock = lock
	return s, nil
}

func (s *Spool) under(name string) string { return filepath.Join(s.root, name) }

// Close gives the lock back.
func (s *Spool) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Dir is the directory of an exec. Only ids that wire.IDTime accepts name one.
func (s *Spool) Dir(id string) string {
	if s.IsAside(id) {
		return filepath.Join(s.aside, id)
	}
	return filepath.Join(s.root, "execs", id)
}

// File is the path of one of an exec's files: "state", "out", "err" or "clock".
func (s *Spool) File(id, name string) string { return filepath.Join(s.Dir(id), name) }

// Has says whether an id is taken.
func (s *Spool) Has(id string) bool {
	if _, err := wire.IDTime(id); err != nil {
		return false
	}
	_, err := os.Lstat(s.Dir(id))
	return err == nil
}

// Create makes an exec's directory, on the volume or aside: the point of no return. os.ErrExist in the
// chain says that the id is taken. Two calls for one id must not run at the same time.
func (s *Spool) Create(id string, aside bool) error {
	if _, err := wire.IDTime(id); err != nil {
		return fmt.Errorf("spool exec: %w", err)
	}
	if aside {
		return wrapped("spool exec", s.createAside(id))
	}
	if s.IsAside(id) {
		return fmt.Errorf("spool exec: %w", os.ErrExist)
	}
	dir := filepath.Join(s.root, "execs", id)
	if taken, err := s.stock.take(dir); taken || err != nil {
		return wrapped("spool exec", err)
	}
	return wrapped("spool exec", s.withRoom(func() error { return os.Mkdir(dir, 0o700) }))
}

// Remove deletes an exec's files. Its directory goes last: until then the id stays taken.
func (s *Spool) Remove(id string) error {
	if _, err := wire.IDTime(id); err != nil {
		return fmt.Errorf("collect an exec: %w", err)
	}
	if err := os.RemoveAll(s.Dir(id)); err != nil {
		return fmt.Errorf("collect an exec: %w", err)
	}
	s.forgetAside(id)
	return nil
}

// IDs are the execs of the spool, newest first.
func (s *Spool) IDs() ([]string, error) {
	var ids []string
	for _, dir := range []string{s.under("execs"), s.aside} {
		names, err := readNames(dir)
		if err != nil {
			return nil, fmt.Errorf("list the spool: %w", err)
		}
		for _, n := range names {
			if _, err := wire.IDTime(n); err != nil {
				continue
			}
			if dir == s.aside {
				s.NoteAside(n)
			}
			ids = append(ids, n)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids, nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
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

// Stored is how many bytes an exec's files take on disk, holes left out.
func (s *Spool) Stored(id string) uint64 {
	dir, total := s.Dir(id), uint64(0)
	for _, n := range [...]string{"state", "out", "err", "clock"} {
		var st unix.Stat_t
		if unix.Lstat(dir+"/"+n, &st) == nil {
			total += uint64(st.Blocks) * 512
		}
	}
	return total
}

// replace writes a file by rename, so that a reader sees all of it or none.
func (s *Spool) replace(path string, data []byte) error {
	return s.withRoom(func() error {
		tmp := path + ".tmp"
		if err := os.WriteFile(tmp, data, 0o600); err != nil {
			return err
		}
		return os.Rename(tmp, path)
	})
}

func trimNewline(s string) string { return strings.TrimSuffix(s, "\n") }

func wrapped(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
