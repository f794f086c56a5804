//go:build linux

package spool

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// OpenFile is os.OpenFile for regular files, with mode 0600: without the five system calls in which that
// one finds out that they cannot be waited on.
func OpenFile(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_LARGEFILE, 0o600)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}
