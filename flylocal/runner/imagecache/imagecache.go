// Package imagecache keeps unpacked images, one directory a digest, shared by all machines and by several platforms
// on one computer.
package imagecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// unfinished begins the names of directories that are being unpacked into.
const unfinished = "unpacking-"

// Cache is a directory of unpacked images. Its methods are safe for concurrent use.
type Cache struct {
	dir string
	// discard removes the content of a directory, whoever owns it.
	discard func(dir string) error

	mu   sync.Mutex
	busy map[string]chan struct{}
}

// Open makes the directory and removes what a killed process left unfinished in it.
func Open(dir string, discard func(dir string) error) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the image cache: %w", err)
	}
	c := &Cache{dir: dir, discard: discard, busy: map[string]chan struct{}{}}
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	if err != nil {
		return nil, err
	}
	for _, d := range left {
		if lock, ok := tryLock(d); ok {
			err := c.remove(d)
			lock.Close()
			if err != nil {
				return nil, fmt.Errorf("remove an unfinished image: %w", err)
			}
		}
	}
	return c, nil
}

// Get returns the directory of the image with this digest ("sha256:…"). When it is missing, unpack is called with an
// empty directory; concurrent calls for one digest unpack it once. The caller must not write below the directory.
func (c *Cache) Get(ctx context.Context, digest string, unpack func(dir string) error) (string, error) {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || hex == "" || strings.Trim(hex+algorithm, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return "", fmt.Errorf("%q is not an image digest", digest)
	}
	at := filepath.Join(c.dir, algorithm+"-"+hex)
	for {
		if _, err := os.Lstat(at); err == nil {
			return at, nil
		}
		wait := c.claim(at)
		if wait == nil {
			err := c.fill(at, unpack)
			c.release(at)
			return at, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// claim makes the caller the one who unpacks, or returns what to wait for.
func (c *Cache) claim(at string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait, ok := c.busy[at]; ok {
		return wait
	}
	c.busy[at] = make(chan struct{})
	return nil
}

func (c *Cache) release(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.busy[at])
	delete(c.busy, at)
}

// fill unpacks beside the final place and renames, so that a directory with its final name is always whole.
func (c *Cache) fill(at string, unpack func(string) error) error {
	if _, err := os.Lstat(at); err == nil {
		return nil // another call has just finished it
	}
	tmp, err := os.MkdirTemp(c.dir, unfinished)
	if err != nil {
		return fmt.Errorf("unpack an image: %w", err)
	}
	lock, ok := tryLock(tmp)
	if !ok {
		return fmt.Errorf("unpack an image: %s is in use", tmp)
	}
	defer lock.Close()
	if err := unpack(tmp); err != nil {
		return errors.Join(err, c.remove(tmp))
	}
	err = os.Rename(tmp, at)
	if err == nil {
		return nil
	}
	if _, lerr := os.Lstat(at); lerr == nil {
		return c.remove(tmp) // another platform was faster
	}
	return errors.Join(err, c.remove(tmp))
}

func (c *Cache) remove(dir string) error {
	if err := c.discard(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// tryLock marks a directory as in use for as long as the file is open, which a killed process cannot outlive.
func tryLock(dir string) (*os.File, bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, false
	}
	return f, true
}
