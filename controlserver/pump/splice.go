//go:build linux

package pump

import (
	"errors"

	"golang.org/x/sys/unix"
)

// splice moves up to length bytes from the pipe to the end of the file. The offset is explicit: the
// kernel refuses to splice into a file that is open for appending.
func (p *Pump) splice(pipe, length int) (int64, error) {
	offset := int64(p.offset)
	for {
		n, err := unix.Splice(pipe, nil, int(p.file.Fd()), &offset, length, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
