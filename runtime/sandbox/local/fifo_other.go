//go:build !linux

package local

import (
	"os"
	"syscall"
)

// mkfifoIn is not possible: there is no call that makes a fifo in an open directory.
func mkfifoIn(*os.File, string) error { return syscall.ENOTSUP }
