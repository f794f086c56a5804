//go:build linux

package keeper

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Files are our ends of an exec's streams; those that an exec does not have are nil. The keeper holds
// copies, so a dead server is neither an end of file nor a broken pipe to anybody.
type Files struct {
	// Stdout and Stderr are what the spool is filled from, non-blocking.
	Stdout, Stderr *os.File
	// Terminal is the master of an exec's terminal. Its output goes through a pipe of the keeper's,
	// into Feed and out of Stdout, so that bytes which were read and not yet stored survive.
	Terminal, Feed *os.File
	// Stdin is a file of memory with the accepted bytes of a piped stdin. Its size is how far bytes
	// were accepted; its position, which server and keeper share, is how far they were fed.
	Stdin *os.File
	// StdinHash holds the hash of the accepted bytes, as the server keeps it.
	StdinHash *os.File
	// StdinPipe is where accepted bytes are fed to. With a terminal they go on from StdinTail.
	StdinPipe, StdinTail *os.File

	// expect is the mask of the files that come with a received message.
	expect uint32
}

const fileCount = 8

func (f *Files) slots() [fileCount]**os.File {
	return [fileCount]**os.File{&f.Stdout, &f.Stderr, &f.Terminal, &f.Feed, &f.Stdin, &f.StdinHash, &f.StdinPipe, &f.StdinTail}
}

// mask has a bit for each file that is there.
func (f *Files) mask() uint32 {
	if f.expect != 0 {
		return f.expect
	}
	mask := uint32(0)
	for i, slot := range f.slots() {
		if *slot != nil {
			mask |= 1 << i
		}
	}
	return mask
}

// Close closes all of them.
func (f *Files) Close() {
	for _, slot := range f.slots() {
		if *slot != nil {
			(*slot).Close()
		}
	}
}

// adopt makes files of received descriptors, in the order of the mask that came with them.
func (f *Files) adopt(fds []int) error {
	for i, slot := range f.slots() {
		if f.expect&(1<<i) == 0 {
			continue
		}
		if len(fds) == 0 {
			return errors.New("fewer descriptors than announced")
		}
		*slot = os.NewFile(uintptr(fds[0]), "exec")
		fds = fds[1:]
	}
	closeAll(fds)
	f.expect = 0
	return nil
}

// descriptors are the keeper's own: plain numbers, because it never reads or waits on them.
type descriptors [fileCount]int

// Positions in descriptors, in the order of Files.
const (
	fdStdout = iota
	fdStderr
	fdTerminal
	fdFeed
	fdStdin
	fdStdinHash
	fdStdinPipe
	fdStdinTail
)

func noDescriptors() descriptors {
	var d descriptors
	for i := range d {
		d[i] = -1
	}
	return d
}

func (d *descriptors) mask() uint32 {
	mask := uint32(0)
	for i, fd := range d {
		if fd >= 0 {
			mask |= 1 << i
		}
	}
	return mask
}

func (d *descriptors) list() []int {
	var l []int
	for _, fd := range d {
		if fd >= 0 {
			l = append(l, fd)
		}
	}
	return l
}

func (d *descriptors) close(which ...int) {
	for _, i := range which {
		if d[i] >= 0 {
			_ = unix.Close(d[i])
			d[i] = -1
		}
	}
}

func (d *descriptors) closeAll() {
	for i := range d {
		d.close(i)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
