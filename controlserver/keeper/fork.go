package keeper

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// forker forks from one thread of its own that has given up ever gaining privileges: children inherit
// that, so no setuid program in the image lifts a command above its user.
type forker struct {
	jobs chan func()
	done chan struct{}
}

func newForker() (*forker, error) {
	f := &forker{jobs: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(f.done)
		// Never unlocked: the thread ends with the goroutine and its attribute with it.
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		ready <- err
		if err != nil {
			return
		}
		for job := range f.jobs {
			job()
		}
	}()
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("forbid new privileges to children: %w", err)
	}
	return f, nil
}

func (f *forker) close() {
	close(f.jobs)
	<-f.done
}

// fork starts the program of an order on its ends of the pipes, in a session of its own.
func (f *forker) fork(program string, o Order, e *ends) (int, error) {
	attr := &syscall.ProcAttr{
		Dir:   o.Dir,
		Env:   strs(o.Env),
		Files: []uintptr{e.in.Fd(), e.out.Fd(), e.err.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if o.User != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: o.User.Groups}
	}
	argv := strs(o.Argv)
	var pid int
	var err error
	finished := make(chan struct{})
	f.jobs <- func() {
		defer close(finished)
		pid, err = syscall.ForkExec(program, argv, attr)
	}
	<-finished
	return pid, err
}

func strs(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// ends are both sides of an exec's standard streams.
type ends struct {
	in, out, err   *os.File // the child's
	stdout, stderr *os.File // ours
}

func openEnds(o Order) (*ends, error) {
	e := &ends{}
	if err := e.open(o); err != nil {
		e.closeChildSide()
		e.closeOwnSide()
		return nil, err
	}
	return e, nil
}

func (e *ends) open(o Order) error {
	var err error
	if e.in, err = openStdin(o); err != nil {
		return err
	}
	if e.stdout, e.out, err = pipeFor(o.User); err != nil {
		return err
	}
	if o.Merge {
		e.err = e.out
		return nil
	}
	e.stderr, e.err, err = pipeFor(o.User)
	return err
}

// openStdin gives /dev/null, or the content in a file of memory: a pipe could be smaller than it.
func openStdin(o Order) (*os.File, error) {
	if o.Stdin == nil {
		return os.Open(os.DevNull)
	}
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	f := os.NewFile(uintptr(fd), "stdin")
	_, err = f.Write(o.Stdin)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && o.User != nil {
		err = f.Chown(int(o.User.UID), int(o.User.GID))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("stdin: %w", err)
	}
	return f, nil
}

// pipeFor makes a pipe whose read end never blocks us and whose inode belongs to the user: opening
// /dev/stdout by name asks for permission on it.
func pipeFor(u *User) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	if err = unix.SetNonblock(fds[0], true); err == nil && u != nil {
		err = unix.Fchown(fds[1], int(u.UID), int(u.GID))
	}
	r, w = os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe")
	if err != nil {
		r.Close()
		w.Close()
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return r, w, nil
}

func (e *ends) closeChildSide() {
	for _, f := range []*os.File{e.in, e.out, e.err} {
		if f != nil {
			f.Close()
		}
	}
}

func (e *ends) closeOwnSide() {
	for _, f := range []*os.File{e.stdout, e.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
