// Package control is the line between the platform and a process that it started inside a namespace. It is one
// inherited socket pair, so nothing in the machine's file system leads to it, it has no path whose length or mode
// could be wrong, and each side sees the other's death as the end of the line.
//
// A Line carries conversations: each is a socket pair of its own whose other end travels over the line. On a
// Conversation both sides exchange JSON messages, with open files beside them. So a TCP connection made inside a
// machine's network can be handed out whole, and nothing relays its bytes.
package control

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxMessage bounds one JSON message; the biggest is the start of a machine with its files.
	maxMessage = 32 << 20
	// maxFiles is the kernel's limit (SCM_MAX_FD) rounded down.
	maxFiles = 200
	// headerSize is the length that precedes each message.
	headerSize = 4
)

// Line is one end of the socket pair. Open and Accept are safe for concurrent use.
type Line struct{ conn *net.UnixConn }

// NewLine makes a line: this side's end, and the file that the child inherits. The caller closes both.
func NewLine() (*Line, *os.File, error) {
	near, far, err := socketpair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, nil, err
	}
	line, err := FromFile(near)
	near.Close()
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return line, far, nil
}

// FromFile makes the inherited end of a line usable. The file itself stays open, for a later exec.
func FromFile(f *os.File) (*Line, error) {
	conn, err := unixConn(f)
	if err != nil {
		return nil, fmt.Errorf("use file %d as the control line: %w", f.Fd(), err)
	}
	return &Line{conn}, nil
}

// Open begins a conversation. It fails when the other side is gone.
func (l *Line) Open() (*Conversation, error) {
	near, far, err := socketpair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer far.Close()
	defer near.Close()
	conn, err := unixConn(near)
	if err != nil {
		return nil, err
	}
	if _, _, err := l.conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(far.Fd())), nil); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("begin a conversation: %w", err)
	}
	return &Conversation{conn}, nil
}

// Accept waits for the other side to begin a conversation; io.EOF when the other side is gone.
func (l *Line) Accept() (*Conversation, error) {
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(buf, oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	files, err := received(oob[:oobn])
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	if len(files) != 1 {
		return nil, fmt.Errorf("a conversation began with %d files, not 1", len(files))
	}
	conn, err := unixConn(files[0])
	if err != nil {
		return nil, err
	}
	return &Conversation{conn}, nil
}

// Close ends this side of the line; the other side's Accept answers io.EOF.
func (l *Line) Close() { _ = l.conn.Close() }

// Conversation is one exchange. Send and Receive may be used by two goroutines, each by one at a time.
type Conversation struct{ conn *net.UnixConn }

// Send writes one message with open files beside it. The files stay the caller's to close.
func (c *Conversation) Send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode a control message: %w", err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("a control message of %d bytes is over the limit of %d", len(body), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	if _, _, err := c.conn.WriteMsgUnix(head, rights, nil); err != nil {
		return fmt.Errorf("send a control message: %w", err)
	}
	if _, err := c.conn.Write(body); err != nil {
		return fmt.Errorf("send a control message: %w", err)
	}
	return nil
}

// Receive reads one message into message and returns the files beside it, which the caller closes. io.EOF when the
// other side ended the conversation between messages.
func (c *Conversation) Receive(message any) ([]*os.File, error) {
	head, oob := make([]byte, headerSize), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, _, _, err := c.conn.ReadMsgUnix(head, oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	files, err := received(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if err := c.body(head, n, message); err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func (c *Conversation) body(head []byte, have int, message any) error {
	if _, err := io.ReadFull(c.conn, head[have:]); err != nil {
		return fmt.Errorf("receive a control message: %w", err)
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxMessage {
		return fmt.Errorf("a control message of %d bytes is over the limit of %d", size, maxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return fmt.Errorf("receive a control message: %w", err)
	}
	if err := json.Unmarshal(body, message); err != nil {
		return fmt.Errorf("decode a control message: %w", err)
	}
	return nil
}

// SetDeadline bounds what is being and will be sent and received; zero means no bound.
func (c *Conversation) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// CloseWrite tells the other side that nothing more is sent.
func (c *Conversation) CloseWrite() error { return c.conn.CloseWrite() }

// Close ends the conversation.
func (c *Conversation) Close() { _ = c.conn.Close() }

func socketpair(kind int) (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

func unixConn(f *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a unix socket")
	}
	return uc, nil
}

func received(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read the files beside a message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("read the files beside a message: %w", err)
		}
		for _, fd := range fds {
			// A pipe in this mode can be read and written with deadlines; files and sockets see to themselves.
			var st unix.Stat_t
			if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
				if err := unix.SetNonblock(fd, true); err != nil {
					return nil, fmt.Errorf("prepare a received pipe: %w", err)
				}
			}
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
