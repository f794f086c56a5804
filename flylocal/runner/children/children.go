// Package children holds the processes that an init or a supervisor has started, and reaps all others that come to
// it. Such a process must wait for any child, so nothing else in it may wait for one.
package children

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// ErrClosed refuses new processes.
var ErrClosed = errors.New("no process is started now")

// Table is the set of started processes. Its methods are safe for concurrent use.
type Table struct {
	mu       sync.Mutex
	children map[int]*Child
	closed   bool
}

// Child is a process that Start started.
type Child struct {
	PID int
	// ended is closed after how was set.
	ended chan struct{}
	how   Ended
}

// Ended is how a process ended: its exit code, or 128 + Signal.
type Ended struct {
	Code   int
	Signal syscall.Signal
}

// Done is closed when the process has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.ended }

// Ended tells how the process ended; call it after Done.
func (c *Child) Ended() Ended { return c.how }

// New makes a table; Reap must run for as long as the process lives.
func New() *Table { return &Table{children: map[int]*Child{}} }

// Start starts a process. The lock is held over the fork, so that its end cannot be seen before its beginning.
func (t *Table) Start(path string, argv []string, attr *syscall.ProcAttr) (*Child, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	c := &Child{PID: pid, ended: make(chan struct{})}
	t.children[pid] = c
	return c, nil
}

// While calls do with Start held up; closed says whether Start then answers ErrClosed or goes on.
func (t *Table) While(closed bool, do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	t.closed = closed
	return nil
}

// Reap collects ended processes and never returns.
func (t *Table) Reap() {
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	for {
		t.Alone()
		<-sigchld
	}
}

// Alone collects what has ended and says whether no child is left, not even one that came as an orphan.
func (t *Table) Alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true
		case pid <= 0:
			return false
		default:
			t.ended(pid, status)
		}
	}
}

// ended records the end of a child; of an orphan nobody asks. The caller holds the lock.
func (t *Table) ended(pid int, status syscall.WaitStatus) {
	c, ok := t.children[pid]
	if !ok {
		return
	}
	delete(t.children, pid)
	c.how = Ended{Code: status.ExitStatus()}
	if status.Signaled() {
		c.how = Ended{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	close(c.ended)
}

// Signal signals a child that has not been reaped: its number cannot belong to another process.
func (t *Table) Signal(c *Child, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[c.PID] != c {
		return syscall.ESRCH
	}
	return syscall.Kill(c.PID, sig)
}

// KillGroup kills a child that has not been reaped, with its process group.
func (t *Table) KillGroup(c *Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[c.PID] == c {
		_ = syscall.Kill(-c.PID, syscall.SIGKILL) // it may have no member left that a signal reaches
	}
}
