//go:build linux

// Package probe is the local question to a running control server: over a Unix socket in a directory
// that only root may enter, so that the Machines API's exec, which runs as root, can ask without a
// token and a tenant cannot.
package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the socket's name inside the run directory.
const SocketName = "control.sock"

// MaxQuiesce bounds how long a door may be asked to stay closed.
const MaxQuiesce = time.Hour

// Question is one line of JSON to the server. At most one field is set.
type Question struct {
	QuiesceMS int64 `json:"quiesce_ms,omitempty"`
	Resume    bool  `json:"resume,omitempty"`
}

// Answer is one line of JSON from the server; docs/design/architecture.md holds the meaning of its
// fields.
type Answer struct {
	Wire struct {
		Min int `json:"min"`
		Max int `json:"max"`
	} `json:"wire"`
	Build         string `json:"build"`
	State         string `json:"state"`
	Epoch         string `json:"epoch"`
	Spool         string `json:"spool"`
	Running       int    `json:"running"`
	Quiesce       string `json:"quiesce"`
	QuiescedUntil string `json:"quiesced_until"`
}

const (
	lineLimit = 4 << 10
	talkTime  = 10 * time.Second
	// replaceTime is how long a keeper may take to replace a server.
	replaceTime = 3 * time.Second
)

// Listener answers questions until it is closed.
type Listener struct {
	socket *net.UnixListener
	answer func(Question) (Answer, error)
	log    *slog.Logger
	wg     sync.WaitGroup
}

// Listen makes the run directory (mode 0700) and the socket in it, in place of one that a dead server
// left, and answers in the background.
func Listen(dir string, answer func(Question) (Answer, error), log *slog.Logger) (*Listener, error) {
	if err := MakeDir(dir); err != nil {
		return nil, err
	}
	address, done, err := socketIn(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(filepath.Join(dir, SocketName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove an old probe socket: %w", err)
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for probes in %s: %w", dir, err)
	}
	socket.SetUnlinkOnClose(false)
	l := &Listener{socket: socket, answer: answer, log: log}
	l.wg.Go(l.accept)
	return l, nil
}

// MakeDir makes the run directory, private.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the run directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make the run directory private: %w", err)
	}
	return nil
}

// Close stops answering. The socket file stays; the next server replaces it.
func (l *Listener) Close() error {
	err := l.socket.Close()
	l.wg.Wait()
	return err
}

func (l *Listener) accept() {
	for {
		conn, err := l.socket.AcceptUnix()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.log.Error("probe socket failed", "error", err)
			}
			return
		}
		l.wg.Go(func() { l.talk(conn) })
	}
}

func (l *Listener) talk(conn net.Conn) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(talkTime)); err != nil {
		return
	}
	if err := samePeer(conn); err != nil {
		l.log.Warn("probe refused", "error", err)
		return
	}
	var question Question
	line, err := readLine(conn)
	if err == nil {
		err = json.Unmarshal(line, &question)
	}
	if err == nil && (question.QuiesceMS < 0 || question.QuiesceMS > MaxQuiesce.Milliseconds()) {
		err = fmt.Errorf("quiesce is not in 0 to %s", MaxQuiesce)
	}
	var answer Answer
	if err == nil {
		answer, err = l.answer(question)
	}
	if err != nil {
		l.log.Warn("probe not understood", "error", err)
		_ = json.NewEncoder(conn).Encode(map[string]string{"error": err.Error()})
		return
	}
	_ = json.NewEncoder(conn).Encode(answer)
}

// samePeer refuses a peer that is neither root nor the server's own user: the directory's mode keeps
// others out already, unless somebody widened it.
func samePeer(conn net.Conn) error {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return fmt.Errorf("find out who asks: %w", err)
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d may not ask", cred.Uid)
	}
	return nil
}

// Ask puts one question to the server whose run directory is dir. A server that died a moment ago is
// being replaced by its keeper, so for a few seconds nobody may answer.
func Ask(ctx context.Context, dir string, question Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	patience := time.After(replaceTime)
	for {
		answer, err := ask(ctx, dir, question)
		if !absent(err) {
			return answer, err
		}
		select {
		case <-again.C:
		case <-patience:
			return answer, err
		case <-ctx.Done():
			return answer, err
		}
	}
}

// absent says whether nobody was there to answer, or no longer. Every question may be asked twice.
func absent(err error) bool {
	for _, gone := range []error{unix.ECONNREFUSED, unix.ENOENT, unix.ECONNRESET, unix.EPIPE, io.EOF} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

func ask(ctx context.Context, dir string, question Question) (Answer, error) {
	address, done, err := socketIn(dir)
	if err != nil {
		return Answer{}, err
	}
	defer done()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", address)
	if err != nil {
		return Answer{}, fmt.Errorf("no control server answers at %s: %w", filepath.Join(dir, SocketName), err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return Answer{}, fmt.Errorf("probe: %w", err)
		}
	}
	if err := json.NewEncoder(conn).Encode(question); err != nil {
		return Answer{}, fmt.Errorf("probe: %w", err)
	}
	line, err := readLine(conn)
	if err != nil {
		return Answer{}, fmt.Errorf("probe: read the answer: %w", err)
	}
	var reply struct {
		Answer
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return Answer{}, fmt.Errorf("probe: the answer is no JSON: %w", err)
	}
	if reply.Error != "" {
		return Answer{}, fmt.Errorf("probe: the control server says: %s", reply.Error)
	}
	return reply.Answer, nil
}

func readLine(r io.Reader) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, lineLimit)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("no whole line of at most %d bytes: %w", lineLimit, err)
	}
	return line, nil
}

// socketIn names the socket by an open directory: a socket's own path is limited to 108 bytes.
func socketIn(dir string) (string, func(), error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("open the run directory of the control server: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName), func() { d.Close() }, nil
}
