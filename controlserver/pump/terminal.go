//go:build linux

package pump

import (
	"golang.org/x/sys/unix"
)

// CanStoreTerminals says whether this kernel splices out of a terminal, which keeps its output safe from
// our own end: kernels 5.10 to 6.4 may refuse. It makes a terminal and tries.
func CanStoreTerminals() bool {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(master) }()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return false
	}
	defer func() { _ = unix.Close(fds[0]); _ = unix.Close(fds[1]) }()
	// Nothing is there to read: a kernel that can says so, one that cannot says EINVAL.
	_, err = unix.Splice(master, nil, fds[1], nil, 1, unix.SPLICE_F_NONBLOCK)
	return err == unix.EAGAIN || err == unix.EIO || err == nil
}
