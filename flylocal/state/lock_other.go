//go:build !unix

package state

import (
	"errors"
	"os"
	"runtime"
)

// tryLock refuses: without a lock that ends with its process two platforms could share a directory.
func tryLock(*os.File, bool) (free bool, err error) {
	return false, errors.New("the local platform runs on Linux and macOS, not on " + runtime.GOOS)
}
