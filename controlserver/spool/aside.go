//go:build linux

package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// asides remembers which execs are kept beside the volume: they are few, and every path asks for it.
type asides struct {
	mu     sync.Mutex
	listed bool
	ids    map[string]bool
}

// IsAside says whether an exec is kept beside the volume. A process that did not make it itself, nor was
// told by NoteAside, knows of those that were there when it first asked.
func (s *Spool) IsAside(id string) bool {
	a := &s.asides
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := s.listAside(); err == nil && !a.ids[id] {
		return false
	}
	_, err := os.Lstat(filepath.Join(s.aside, id))
	return err == nil
}

// NoteAside is told of an exec that another process has put beside the volume.
func (s *Spool) NoteAside(id string) {
	s.asides.mu.Lock()
	defer s.asides.mu.Unlock()
	if s.asides.ids == nil {
		s.asides.ids = map[string]bool{}
	}
	s.asides.ids[id] = true
}

func (s *Spool) forgetAside(id string) {
	s.asides.mu.Lock()
	defer s.asides.mu.Unlock()
	delete(s.asides.ids, id)
}

func (s *Spool) createAside(id string) error {
	if _, err := os.Lstat(filepath.Join(s.root, "execs", id)); err == nil {
		return os.ErrExist
	}
	// Noted first: whoever looks between finds that it is not there yet.
	s.NoteAside(id)
	return os.Mkdir(filepath.Join(s.aside, id), 0o700)
}

func (s *Spool) listAside() error {
	a := &s.asides
	if a.listed {
		return nil
	}
	names, err := readNames(s.aside)
	if err != nil {
		return fmt.Errorf("list what is beside the volume: %w", err)
	}
	if a.ids == nil {
		a.ids = make(map[string]bool, len(names))
	}
	for _, n := range names {
		a.ids[n] = true
	}
	a.listed = true
	return nil
}
