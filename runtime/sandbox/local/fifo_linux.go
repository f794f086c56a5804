package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// mkfifoIn makes a fifo in an open directory, so that no link can lead it elsewhere.
func mkfifoIn(dir *os.File, name string) error {
	return unix.Mkfifoat(int(dir.Fd()), name, 0o600)
}
