//go:build linux

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// stock holds directories of execs that are still to come, made while nothing starts: a start then takes
// one by rename, which is as much of a point of no return as making it, and needs no new inode. An inode
// is the dearest part of a start, most of all on a file system that shuns inodes which were given back
// a short while ago.
type stock struct {
	dir string

	mu    sync.Mutex
	ready []string // names in dir
	made  int
	off   bool // the file system has no rename that spares what is there
}

// mostStock bounds the stock whatever a burst took.
const mostStock = 128

// stocked are the files in a stocked directory, all empty. A stream that is rarely written to is not
// among them.
var stocked = []string{"state", "out"}

// openStock takes over what an earlier keeper left: nothing writes to a directory before it is renamed.
func openStock(dir string) (*stock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	return &stock{dir: dir, ready: names}, nil
}

// take gives a directory the name of an exec. False says that there is none to take; os.ErrExist in the
// chain that the name is taken.
func (s *stock) take(path string) (bool, error) {
	if s == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.off && len(s.ready) > 0 {
		name := s.ready[len(s.ready)-1]
		err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(s.dir, name), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			return false, err
		case errors.Is(err, unix.ENOENT):
			// Somebody tidied up.
		case err != nil:
			s.off = true
			return false, nil
		}
		s.ready = s.ready[:len(s.ready)-1]
		if err == nil {
			return true, nil
		}
	}
	return false, nil
}

// add makes one more directory; false when there are as many as wanted, or no more can be made.
func (s *stock) add(wanted int) (bool, error) {
	s.mu.Lock()
	if s.off || len(s.ready) >= wanted {
		s.mu.Unlock()
		return false, nil
	}
	s.made++
	n := s.made
	s.mu.Unlock()
	// The name is of no later use; that of an earlier keeper's may be met again.
	name := fmt.Sprintf("%d-%d", os.Getpid(), n)
	dir := filepath.Join(s.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return false, fmt.Errorf("stock directories: %w", err)
	} else if err != nil {
		return true, nil
	}
	for _, file := range stocked {
		f, err := os.OpenFile(filepath.Join(dir, file), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return false, fmt.Errorf("stock directories: %w", err)
		}
		f.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, name)
	return true, nil
}

// Restock makes directories ahead of time until there are as many as wanted, or as the volume allows, or
// until busy says that there is something better to do.
func (s *Spool) Restock(wanted int, busy func() bool) error {
	if s.stock == nil {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return fmt.Errorf("free space of the spool: %w", err)
	}
	// A small part of its inodes and blocks, a directory being one of each.
	wanted = int(min(uint64(min(wanted, mostStock)), st.Ffree/512, st.Bavail/512))
	for !busy() {
		more, err := s.stock.add(wanted)
		if err != nil || !more {
			return err
		}
	}
	return nil
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

func wrapped(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
