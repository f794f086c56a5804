//go:build linux

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
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
