package guest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// errFrozen refuses new processes while the machine is suspended.
var errFrozen = errors.New("the machine is suspended")

// table holds the processes that the init started and reaps all others. As PID 1 it must wait for any child, so
// nothing else in this process may wait for one.
type table struct {
	mu       sync.Mutex
	children map[int]*child
	frozen   bool
	// stoppedBefore are processes that were stopped already when the machine was frozen; thawing leaves them so.
	stoppedBefore map[int]bool
}

// child is a process that the init started.
type child struct {
	pid int
	// ended is closed after how was set.
	ended chan struct{}
	how   Ended
}

func newTable() *table { return &table{children: map[int]*child{}} }

// start starts a process. The lock is held over the fork, so that its end cannot be seen before its beginning.
func (t *table) start(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return nil, errFrozen
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, ended: make(chan struct{})}
	t.children[pid] = c
	return c, nil
}

// reap collects ended processes for as long as the init lives.
func (t *table) reap() {
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	for {
		for t.reapOne() {
		}
		<-sigchld
	}
}

func (t *table) reapOne() bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.children[pid]
	if !ok {
		return true // an orphan
	}
	delete(t.children, pid)
	c.how = Ended{Code: status.ExitStatus()}
	if status.Signaled() {
		c.how = Ended{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	close(c.ended)
	return true
}

// signal signals a child that has not been reaped: its number cannot belong to another process.
func (t *table) signal(c *child, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[c.pid] != c {
		return syscall.ESRCH
	}
	return syscall.Kill(c.pid, sig)
}

// killGroup kills the child and its process group. The lock keeps the leader from being reaped meanwhile, so that
// the group's number cannot belong to others.
func (t *table) killGroup(c *child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children[c.pid] == c {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// freeze stops every process but the init, at one instant: the kernel signals all of them before any can fork.
func (t *table) freeze() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frozen {
		return nil
	}
	list, err := procs.List()
	if err != nil {
		return err
	}
	t.stoppedBefore = map[int]bool{}
	for _, p := range list {
		if p.State == 'T' {
			t.stoppedBefore[p.PID] = true
		}
	}
	if err := syscall.Kill(-1, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop all processes: %w", err)
	}
	t.frozen = true
	return nil
}

func (t *table) thaw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.frozen {
		return nil
	}
	t.frozen = false
	if len(t.stoppedBefore) == 0 {
		if err := syscall.Kill(-1, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("continue all processes: %w", err)
		}
		return nil
	}
	list, err := procs.List()
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.PID != 1 && !t.stoppedBefore[p.PID] {
			_ = syscall.Kill(p.PID, syscall.SIGCONT) // it may have ended
		}
	}
	return nil
}

// listProcesses answers OpPs; more rows than this are cut, for the reply has a bound.
func listProcesses() ([]procs.Process, error) {
	list, err := procs.List()
	if err != nil {
		return nil, err
	}
	const most = 4096
	list = list[:min(len(list), most)]
	procs.AddSockets(list)
	return list, nil
}
