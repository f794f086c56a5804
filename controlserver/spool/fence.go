//go:build linux

package spool

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Fence is the highest fence recorded for a scope, 0 when there is none.
func (s *Spool) Fence(scope string) (uint64, error) {
	b, err := readFile(s.fenceFile(scope))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read a fence: %w", err)
	}
	text, recorded, _ := strings.Cut(string(b), " ")
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil || trimNewline(recorded) != scope {
		return 0, fmt.Errorf("fence file of scope %s is damaged", scope)
	}
	return fence, nil
}

// RaiseFence records a higher fence and returns once it is on the disk: a machine that lost power must
// not obey an owner it had already renounced.
func (s *Spool) RaiseFence(scope string, fence uint64) error {
	return s.withRoom(func() error { return s.raiseFence(scope, fence) })
}

func (s *Spool) raiseFence(scope string, fence uint64) error {
	path := s.fenceFile(scope)
	tmp, err := os.CreateTemp(filepath.Dir(path), ".fence-")
	if err != nil {
		return fmt.Errorf("record a fence: %w", err)
	}
	_, err = fmt.Fprintf(tmp, "%d %s\n", fence, scope)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("record a fence: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return syncDir(filepath.Dir(path))
}

func (s *Spool) fenceFile(scope string) string {
	sum := sha256.Sum256([]byte(scope))
	return filepath.Join(s.root, "fences", base64.RawURLEncoding.EncodeToString(sum[:]))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync a directory: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync a directory: %w", err)
	}
	return nil
}
