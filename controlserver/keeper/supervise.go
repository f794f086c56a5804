//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
)

// Descriptors at which a server finds its link and its listening socket.
const (
	LinkFD   = 3
	ListenFD = 4
)

// House is a keeper with the server that it keeps alive.
type House struct {
	Spool *spool.Spool
	// Listener is the control port. It is open as long as the keeper lives, so that callers wait for a
	// new server instead of being refused.
	Listener *os.File
	// Server is the server's program and arguments, Env its environment.
	Server []string
	Env    []string
	// StopTime is how long a server may take to drain.
	StopTime time.Duration
	Log      *slog.Logger

	core *Core
	mu   sync.Mutex
	link *link // of the present server
	pid  int
	// serving: the present server answers callers; served: one ever did; stopping: ctx has ended;
	// late: so has StopTime.
	serving, served, stopping, late bool
}

// ErrLate is a stop that took longer than its time: what was left was killed.
var ErrLate = errors.New("the stop took too long")

// ErrNoServer wraps the end of a first server that gave up before it served: what is wrong would be wrong
// again. One that was killed is started again.
var ErrNoServer = errors.New("the control server does not start")

// Restarts of a server that dies come after a pause, which grows while servers die before they serve.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Supervise runs the keeper on the calling goroutine, with a server beside it, until ctx ends; then it
// has the server drain and returns when it has. It takes the goroutine's thread for good and all
// children of the process for its own.
func (h *House) Supervise(ctx context.Context) error {
	core, err := NewCore(Options{Spool: h.Spool, Notify: h.notify, Log: h.Log})
	if err != nil {
		return err
	}
	h.core = core
	core.protect()
	defer core.Close()
	failed := make(chan error, 1)
	go func() { failed <- core.Reap(context.WithoutCancel(ctx)) }()
	stopped := context.AfterFunc(ctx, h.stop)
	defer stopped()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		status, served, err := h.serve()
		select {
		case reapErr := <-failed:
			return errors.Join(err, reapErr)
		default:
		}
		if err != nil {
			return err
		}
		if done, err := h.ended(status); done {
			return err
		}
		if served {
			pause = firstPause
		}
		h.Log.Error("the server died and is started again", "status", describe(status), "pause", pause.String())
		time.Sleep(pause)
	}
}

// ended judges a server's end: true when there is to be no other.
func (h *House) ended(status unix.WaitStatus) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.late:
		return true, errors.Join(ErrLate, h.core.sweepOut())
	case status.Exited() && status.ExitStatus() == 0:
		// It drained, as we asked, or as a terminal asked its whole process group.
		return true, h.core.sweepOut()
	case !h.served && status.Exited():
		return true, fmt.Errorf("%w: %s", ErrNoServer, describe(status))
	}
	return false, nil
}

// serve starts one server and answers it until it is gone. It says whether that one came to serve.
func (h *House) serve() (status unix.WaitStatus, served bool, err error) {
	ours, theirs, err := pair()
	if err != nil {
		return 0, false, err
	}
	l := newLink(ours)
	defer func() { _ = unix.Close(ours) }()
	exited, err := h.spawn(theirs)
	_ = unix.Close(theirs)
	if err != nil {
		return 0, false, err
	}
	h.mu.Lock()
	h.link = l
	h.mu.Unlock()
	s := &session{core: h.core, link: l, serving: h.onServing}
	if err := s.run(); err != nil {
		h.Log.Error("the server is no longer understood", "error", err)
		h.core.signalForeign(h.pid, unix.SIGKILL)
	}
	h.mu.Lock()
	served = h.serving
	h.link, h.serving = nil, false
	h.mu.Unlock()
	return <-exited, served, nil
}

func (h *House) spawn(link int) (<-chan unix.WaitStatus, error) {
	attr := &syscall.ProcAttr{
		Env:   h.Env,
		Files: []uintptr{0, 1, 2, uintptr(link), h.Listener.Fd()},
		Sys:   &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	exited := make(chan unix.WaitStatus, 1)
	h.core.mu.Lock()
	defer h.core.mu.Unlock()
	pid, err := syscall.ForkExec(h.Server[0], h.Server, attr)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	crashpoint.Victim(pid)
	h.core.foreign[pid] = func(status unix.WaitStatus) { exited <- status }
	if h.core.tame {
		tame(pid)
	}
	h.mu.Lock()
	h.pid = pid
	h.mu.Unlock()
	return exited, nil
}

// onServing is the server's word that callers are answered.
func (h *House) onServing() {
	h.mu.Lock()
	h.serving, h.served = true, true
	stop := h.stopping
	h.mu.Unlock()
	if stop {
		h.core.signalForeign(h.pid, unix.SIGTERM)
	}
}

// stop has the present server drain, or the next one, when it is being replaced. When the time is over
// everything is killed: the platform would do it a moment later.
func (h *House) stop() {
	h.mu.Lock()
	h.stopping = true
	pid, serving := h.pid, h.serving
	h.mu.Unlock()
	if serving {
		h.core.signalForeign(pid, unix.SIGTERM)
	}
	time.AfterFunc(h.StopTime, func() {
		h.mu.Lock()
		h.late = true
		pid := h.pid
		h.mu.Unlock()
		h.core.signalForeign(pid, unix.SIGKILL)
	})
}

// notify passes an exec's end on. Without a server it waits in the list that the next one is given.
func (h *House) notify(e Ended) {
	h.mu.Lock()
	l := h.link
	h.mu.Unlock()
	if l == nil {
		return
	}
	if err := l.write(&message{kind: kindEnded, ended: &e}, nil); err != nil {
		h.Log.Info("an end waits for the next server", "exec", e.ID)
	}
}

func describe(s unix.WaitStatus) string {
	if s.Signaled() {
		return "killed by signal " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
