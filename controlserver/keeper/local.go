package keeper

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Local is a Keeper inside the calling process.
type Local struct {
	spool  *spool.Spool
	epoch  string
	adopt  bool
	notify func(Ended)
	log    *slog.Logger
	forker *forker

	// mu is held over a fork and its record, and over a reap and its record: no child is reaped
	// before the record of its start is there, and none is signalled after its reap.
	mu       sync.Mutex
	children map[int]*child // by pid
	byID     map[string]*child

	chld chan os.Signal
	wake chan struct{}
	done chan struct{}
	wg   sync.WaitGroup
}

type child struct {
	id    string
	pid   int
	cause wirev1.ExitCause
}

// LocalOptions say how a Local keeper works.
type LocalOptions struct {
	Spool *spool.Spool
	// Adopt reaps every child of the process, not only those of execs: right where the process is
	// PID 1 or a subreaper and starts no children by other ways.
	Adopt bool
	// Notify is called once for every started exec, after its end is on record, from one goroutine.
	Notify func(Ended)
	Log    *slog.Logger
}

// NewLocal starts a keeper with an epoch of its own.
func NewLocal(o LocalOptions) (*Local, error) {
	epoch, err := newEpoch()
	if err != nil {
		return nil, err
	}
	if o.Adopt {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the parent of orphans: %w", err)
		}
	}
	f, err := newForker()
	if err != nil {
		return nil, err
	}
	k := &Local{
		spool: o.Spool, epoch: epoch, adopt: o.Adopt, notify: o.Notify, log: o.Log, forker: f,
		children: map[int]*child{}, byID: map[string]*child{},
		chld: make(chan os.Signal, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	signal.Notify(k.chld, syscall.SIGCHLD)
	k.wg.Go(k.reapLoop)
	return k, nil
}

// Epoch names this life of the keeper.
func (k *Local) Epoch() string { return k.epoch }

// Close ends the keeper's goroutines; children go on.
func (k *Local) Close() error {
	signal.Stop(k.chld)
	close(k.done)
	k.wg.Wait()
	k.forker.close()
	return nil
}

// Start makes the process of an exec, at most once for an id.
func (k *Local) Start(o Order) (Receipt, error) {
	if err := k.spool.Create(o.ID); err != nil {
		if errors.Is(err, os.ErrExist) {
			return Receipt{Existed: true}, nil
		}
		return Receipt{}, err
	}
	if err := k.spool.WriteSpec(o.ID, o.Record); err != nil {
		return Receipt{}, err
	}
	if f := checkDir(o); f != nil {
		return k.fail(o, f)
	}
	program, f := lookup(o)
	if f != nil {
		return k.fail(o, f)
	}
	ends, err := openEnds(o)
	if err != nil {
		return k.fail(o, failure(wirev1.StartFailure_START_FAILURE_RESOURCES, "the machine cannot open pipes: "+errno(err)))
	}
	defer ends.closeChildSide()

	k.mu.Lock()
	defer k.mu.Unlock()
	pid, err := k.forker.fork(program, o, ends)
	if err != nil {
		ends.closeOwnSide()
		return k.fail(o, execFailure(err))
	}
	r := Receipt{PID: pid, StartedAt: time.Now().UnixMilli(), Stdout: ends.stdout, Stderr: ends.stderr}
	c := &child{id: o.ID, pid: pid, cause: wirev1.ExitCause_EXIT_CAUSE_EXITED}
	k.children[pid], k.byID[o.ID] = c, c
	if err := k.spool.AppendStarted(o.ID, pid, r.StartedAt, k.epoch); err != nil {
		// The process runs and its pipes are held: the exec lives on, its record ends with this life.
		k.log.Error("start is not on record", "exec", o.ID, "error", err)
	}
	return r, nil
}

func (k *Local) fail(o Order, f *spool.Failure) (Receipt, error) {
	r := Receipt{Failure: f, StartedAt: time.Now().UnixMilli()}
	if err := k.spool.AppendFailed(o.ID, r.StartedAt, k.epoch, *f); err != nil {
		return Receipt{}, err
	}
	return r, nil
}

// Signal sends a signal to an exec's leader, to its process group, or to all processes that can be
// found to descend from it.
func (k *Local) Signal(s Shot) (Hit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.byID[s.ID]
	if c == nil {
		return Hit{}, nil
	}
	if s.Cause != wirev1.ExitCause_EXIT_CAUSE_UNSPECIFIED && c.cause == wirev1.ExitCause_EXIT_CAUSE_EXITED {
		c.cause = s.Cause
		if err := k.spool.AppendCause(s.ID, s.Cause); err != nil {
			k.log.Error("cause is not on record", "exec", s.ID, "error", err)
		}
	}
	sig := unix.Signal(s.Signal)
	hit := Hit{Delivered: true, ReachedBy: wirev1.TreeKill_TREE_KILL_WALK}
	switch s.Target {
	case wirev1.SignalTarget_SIGNAL_TARGET_LEADER:
		return hit, ignoreGone(unix.Kill(c.pid, sig))
	case wirev1.SignalTarget_SIGNAL_TARGET_TREE:
		tree, err := descendants(c.pid)
		if err != nil {
			return hit, err
		}
		err = ignoreGone(unix.Kill(-c.pid, sig))
		for _, pid := range tree {
			err = errors.Join(err, ignoreGone(unix.Kill(pid, sig)))
		}
		return hit, err
	}
	return hit, ignoreGone(unix.Kill(-c.pid, sig))
}

// Sweep signals every process below this one. A process that forks meanwhile may need another call.
func (k *Local) Sweep(signal int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range below(all, os.Getpid(), false) {
		err = errors.Join(err, ignoreGone(unix.Kill(pid, unix.Signal(signal))))
	}
	return err
}

// ignoreGone: a process that is a zombie by now takes no signal and needs none.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
