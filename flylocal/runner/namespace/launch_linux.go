package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/stage"
)

var errClosed = errors.New("the runner is closed")

// forker starts all children from one thread that lives as long as the runner. A child that is to die with its
// parent dies with the thread that made it, and Go may end any other thread.
type forker struct {
	jobs chan func()
	// closing is closed to end the thread, done when it has ended.
	closing, done chan struct{}
}

func newForker() *forker {
	f := &forker{jobs: make(chan func()), closing: make(chan struct{}), done: make(chan struct{})}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		defer close(f.done)
		for {
			select {
			case job := <-f.jobs:
				job()
			case <-f.closing:
				return
			}
		}
	}()
	return f
}

// start starts cmd.
func (f *forker) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	select {
	case f.jobs <- func() { result <- cmd.Start() }:
		return <-result
	case <-f.done:
		return errClosed
	}
}

func (f *forker) close() {
	close(f.closing)
	<-f.done
}

// child is a stage, which may become a machine.
type child struct {
	cmd  *exec.Cmd
	line *control.Line
	// complaints is what it wrote to stderr.
	complaints *tail
	// ended is closed when it has been waited for.
	ended chan struct{}
}

// launch starts a stage in new namespaces.
func (r *Runner) launch(ctx context.Context) (*child, error) {
	line, far, err := control.NewLine()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	c := &child{line: line, complaints: &tail{}, ended: make(chan struct{})}
	// The executable is named by a descriptor: the child's ids may not be able to walk to it.
	c.cmd = &exec.Cmd{
		Path:        "/proc/self/fd/" + strconv.Itoa(stage.ControlFD+1),
		Args:        []string{stage.Name},
		Env:         []string{"GOMAXPROCS=2"},
		Stderr:      c.complaints,
		ExtraFiles:  []*os.File{far, r.executable},
		SysProcAttr: r.mapping.attr(),
	}
	if err := r.forker.start(c.cmd); err != nil {
		line.Close()
		return nil, fmt.Errorf("make a user namespace: %w", r.mapping.explain(err))
	}
	go func() {
		_ = c.cmd.Wait() // how a machine ended comes over the line
		close(c.ended)
	}()
	if err := r.mapping.finish(ctx, c.cmd.Process.Pid); err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// destroy ends a stage, or a machine that has not got far, and waits until it is gone.
func (c *child) destroy() {
	_ = c.cmd.Process.Kill()
	c.line.Close()
	<-c.ended
}

// attr says how the child is cloned.
func (m mapping) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	switch {
	case m.byRoot:
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: m.base, Size: m.count}}
		attr.UidMappings, attr.GidMappings = ids, ids
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{}
	case m.level == Mapped:
		// newuidmap writes the map after the exec, at which the child, still nobody, would lose its capabilities
		// over the new namespace: as ambient ones it keeps them.
		for c := uintptr(0); c <= unix.CAP_AUDIT_READ; c++ {
			attr.AmbientCaps = append(attr.AmbientCaps, c)
		}
	default:
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		attr.Credential = &syscall.Credential{NoSetGroups: true}
	}
	return attr
}

// finish completes the map of a child that was cloned without one.
func (m mapping) finish(ctx context.Context, pid int) error {
	if m.byRoot || m.level != Mapped {
		return nil
	}
	for _, t := range []struct {
		tool string
		own  int
		sub  idRange
	}{{"newuidmap", os.Getuid(), m.subUID}, {"newgidmap", os.Getgid(), m.subGID}} {
		args := []string{strconv.Itoa(pid), "0", strconv.Itoa(t.own), "1", "1", strconv.Itoa(t.sub.start), strconv.Itoa(m.count - 1)}
		out, err := exec.CommandContext(ctx, t.tool, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("map ids with %s: %w: %s", t.tool, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// explain adds what a person can do about a kernel that gives no user namespace.
func (m mapping) explain(err error) error {
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: user namespaces are not allowed here; allow them (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0, or a container that permits them), or use the process runner, which gives no isolation", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: no more user namespaces are allowed; raise user.max_user_namespaces (sysctl), or use the process runner, which gives no isolation", err)
	}
	return err
}

// maxComplaints bounds what is kept of a child's stderr.
const maxComplaints = 4096

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxComplaints; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
