//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// link is one end of the socket between keeper and server. Messages keep their borders (SOCK_SEQPACKET)
// and carry descriptors. A message too large for the socket travels in a file of memory.
type link struct {
	fd      int
	file    *os.File        // the socket, once the runtime's poller watches it
	arrival syscall.RawConn // waits for what comes without a thread; nil where a thread of its own does
	send    sync.Mutex
	receive []byte
	control []byte
}

const (
	// mostInline is what surely fits the kernel's default socket buffer.
	mostInline = 64 << 10
	// mostMessage bounds a message in a file: a request of the wire, with its overhead in lengths.
	mostMessage = 16 << 20
	// First byte of a packet.
	packetInline, packetFile = 'i', 'f'
)

func newLink(fd int) *link {
	return &link{fd: fd, receive: make([]byte, mostInline+1), control: make([]byte, unix.CmsgSpace(4*(fileCount+1)))}
}

// watch lets the runtime's poller wait for messages. A thread that waits in the kernel holds one of the few that run goroutines,
// until the runtime notices, and looks for such every few microseconds: for an end at which much else is done that is dear.
func (l *link) watch() error {
	if err := unix.SetNonblock(l.fd, true); err != nil {
		return fmt.Errorf("link of keeper and server: %w", err)
	}
	l.file = os.NewFile(uintptr(l.fd), "link")
	var err error
	if l.arrival, err = l.file.SyscallConn(); err != nil {
		return fmt.Errorf("link of keeper and server: %w", err)
	}
	return nil
}

// pair makes both ends of a link.
func pair() (keeper, server int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("link of keeper and server: %w", err)
	}
	return fds[0], fds[1], nil
}

// write sends one message with descriptors. The other end's death is an error, never a signal.
func (l *link) write(m *message, fds []int) error {
	packet := append([]byte{packetInline}, m.encode()...)
	if len(packet) > mostInline {
		fd, err := inFile(packet[1:])
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		packet, fds = []byte{packetFile}, append([]int{fd}, fds...)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	l.send.Lock()
	defer l.send.Unlock()
	for {
		err := unix.Sendmsg(l.fd, packet, rights, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			// The other end is behind; it reads on or is gone.
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLOUT}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("send to the other process: %w", err)
			}
		case err != nil:
			return fmt.Errorf("send to the other process: %w", err)
		default:
			return nil
		}
	}
}

func inFile(b []byte) (int, error) {
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("message in a file: %w", err)
	}
	for at := 0; at < len(b); {
		n, err := unix.Pwrite(fd, b[at:], int64(at))
		if err != nil {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("message in a file: %w", err)
		}
		at += n
	}
	return fd, nil
}

// read waits for one message. The descriptors are the caller's to close. io.EOF: the other end is gone.
func (l *link) read() (*message, []int, error) {
	n, fds, err := l.packet()
	if err != nil {
		return nil, nil, err
	}
	b := l.receive[1:n]
	if l.receive[0] == packetFile {
		if len(fds) == 0 {
			return nil, nil, errMessage
		}
		file := os.NewFile(uintptr(fds[0]), "message")
		fds = fds[1:]
		b, err = io.ReadAll(io.NewSectionReader(file, 0, mostMessage))
		file.Close()
	}
	var m *message
	if err == nil {
		// What is decoded keeps parts of the bytes it was decoded from.
		m, err = decode(append([]byte(nil), b...))
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return m, fds, nil
}

func (l *link) packet() (int, []int, error) {
	for {
		n, oob, flags, err := l.recv()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, nil, fmt.Errorf("receive from the other process: %w", err)
		case n == 0:
			return 0, nil, io.EOF
		}
		fds, err := rights(l.control[:oob])
		if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			closeAll(fds)
			err = errMessage
		}
		return n, fds, err
	}
}

// recv is one recvmsg, once there is something to receive.
func (l *link) recv() (n, oob, flags int, err error) {
	if l.arrival == nil {
		n, oob, flags, _, err = unix.Recvmsg(l.fd, l.receive, l.control, unix.MSG_CMSG_CLOEXEC)
		return n, oob, flags, err
	}
	waitErr := l.arrival.Read(func(fd uintptr) bool {
		n, oob, flags, _, err = unix.Recvmsg(int(fd), l.receive, l.control, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return 0, 0, 0, waitErr
	}
	return n, oob, flags, err
}

func rights(control []byte) ([]int, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("descriptors of a message: %w", err)
	}
	var fds []int
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(fds)
			return nil, fmt.Errorf("descriptors of a message: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
