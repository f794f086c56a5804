// Package signals reads the names of signals.
package signals

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// last is the highest signal number of Linux.
const last = 64

// Parse reads "SIGTERM", "term" or "15".
func Parse(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n <= last {
		return syscall.Signal(n), nil
	}
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if sig := unix.SignalNum(full); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("there is no signal %q", name)
}
