//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Core is the keeper's work: what a server asks for by its Remote is done here.
type Core struct {
	spool  *spool.Spool
	epoch  string
	notify func(Ended)
	log    *slog.Logger
	forker *forker
	groups cgroups
	stock  *restocker
	null   int // stdin of who is given none
	// tame puts children back to the usual OOM score, where the keeper could lower its own.
	tame bool

	// mu is held over a fork and its record, and over a reap and its record: no child is reaped
	// before the record of its start is there, and none is signalled after its reap.
	mu       sync.Mutex
	children map[int]*child    // by pid, until reaped
	kept     map[string]*child // by id, until released
	foreign  map[int]func(unix.WaitStatus)
	haunted  []*cgroup // of released execs whose orphans live
	ooms     ooms
}

// child is an exec that the keeper knows.
type child struct {
	id        string
	pid       int
	startedAt int64
	own       descriptors
	group     *cgroup
	cause     wirev1.ExitCause
	ooms      int64
	ended     *Ended
}

// Options say how a Core works.
type Options struct {
	Spool *spool.Spool
	// Notify is called once for every started exec, after its end is on record, by Reap's goroutine.
	Notify func(Ended)
	Log    *slog.Logger
}

// NewCore makes a keeper with an epoch of its own, parent of all orphans below this process. It takes the
// calling goroutine's thread for forking, and never gives it back: processes are started by that goroutine
// alone, and die with it.
func NewCore(o Options) (*Core, error) {
	epoch, err := newEpoch()
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	f := &forker{}
	if err := f.claimThread(); err != nil {
		return nil, err
	}
	k := &Core{
		spool: o.Spool, epoch: epoch, notify: o.Notify, log: o.Log, forker: f, groups: findCgroups(epoch),
		children: map[int]*child{}, kept: map[string]*child{}, foreign: map[int]func(unix.WaitStatus){},
		ooms: ooms{now: time.Now},
	}
	k.groups.clear(func(id string) bool { return k.spool.Has(id) })
	if k.null, err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open the null device: %w", err)
	}
	k.stock = newRestocker(o.Spool, o.Log)
	return k, nil
}

// Close gives the keeper's own resources up.
func (k *Core) Close() {
	k.stock.close()
	k.mu.Lock()
	k.haunted = slices.DeleteFunc(k.haunted, (*cgroup).gone)
	for _, c := range k.kept {
		c.own.closeAll()
		if c.group != nil {
			c.group.gone()
		}
	}
	k.mu.Unlock()
	_ = unix.Close(k.null)
}

// start makes the process of an exec, at most once for an id, on the goroutine that called NewCore. The
// descriptors stay the keeper's; the Receipt has no files.
func (k *Core) start(o *Order) (Receipt, descriptors, error) {
	crashpoint.At(crashpoint.BeforeMkdir)
	// On a full volume the command that makes room must still run.
	room, err := k.spool.Room()
	aside := err != nil || room.Below()
	k.stock.note()
	log, err := k.spool.Begin(o.ID, aside, o.Record)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			return Receipt{Existed: true}, descriptors{}, nil
		}
		return Receipt{}, descriptors{}, err
	}
	crashpoint.At(crashpoint.MkdirFork)
	// An open file here would be copied into every later child.
	defer log.Close()
	return k.make(o, log, aside)
}

// make makes the process of an exec whose id is taken.
func (k *Core) make(o *Order, log *spool.Log, aside bool) (Receipt, descriptors, error) {
	if f := checkDir(o); f != nil {
		return k.fail(log, aside, f)
	}
	program, f := lookup(o)
	if f != nil {
		return k.fail(log, aside, f)
	}
	e, err := openEnds(o, k.null)
	if err != nil {
		return k.fail(log, aside, failure(wirev1.StartFailure_START_FAILURE_RESOURCES, "the machine cannot open pipes: "+errno(err)))
	}
	defer e.closeChildSide()
	group := k.groups.make(o.ID)

	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.ooms.recent()
	pid, err := k.forker.fork(program, o, e.child, group)
	if err != nil {
		e.own.closeAll()
		if group != nil {
			group.gone()
		}
		return k.fail(log, aside, execFailure(err))
	}
	c := &child{
		id: o.ID, pid: pid, startedAt: time.Now().UnixMilli(), own: e.own, group: group, ooms: before,
		cause: wirev1.ExitCause_EXIT_CAUSE_EXITED,
	}
	k.children[pid], k.kept[o.ID] = c, c
	if k.tame {
		tame(pid)
	}
	crashpoint.At(crashpoint.ForkStarted)
	if err := log.Started(pid, c.startedAt, k.epoch); err != nil {
		// The process runs and its pipes are held: the exec lives on, its record ends with this life.
		k.log.Error("start is not on record", "exec", o.ID, "error", err)
	}
	crashpoint.At(crashpoint.StartedReply)
	return Receipt{PID: pid, StartedAt: c.startedAt, Volatile: aside}, c.own, nil
}

func (k *Core) fail(log *spool.Log, aside bool, f *spool.Failure) (Receipt, descriptors, error) {
	r := Receipt{Failure: f, StartedAt: time.Now().UnixMilli(), Volatile: aside}
	if err := log.Failed(r.StartedAt, k.epoch, *f); err != nil {
		return Receipt{}, descriptors{}, err
	}
	return r, descriptors{}, nil
}

// CloseStdin gives up the keeper's copies of an exec's stdin.
func (k *Core) CloseStdin(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.kept[id]; c != nil {
		c.own.close(fdStdin, fdStdinHash, fdStdinPipe, fdStdinTail)
	}
	return nil
}

// Release forgets an ended exec.
func (k *Core) Release(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kept[id]
	if c == nil || c.ended == nil {
		return
	}
	c.own.closeAll()
	delete(k.kept, id)
	if c.group != nil && !c.group.gone() {
		k.haunted = append(k.haunted, c.group)
	}
}

// Signal sends a signal to an exec's leader, to its process group, or to all its processes.
func (k *Core) Signal(s Shot) (Hit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kept[s.ID]
	if c == nil || c.ended != nil {
		return Hit{}, nil
	}
	if cause := spool.StrongerCause(c.cause, s.Cause); cause != c.cause {
		c.cause = cause
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
		return k.signalTree(c, sig)
	}
	return hit, ignoreGone(unix.Kill(-c.pid, sig))
}

// TreeKill says how whole trees are reached here.
func (k *Core) TreeKill() wirev1.TreeKill {
	if k.groups.dir != "" {
		return wirev1.TreeKill_TREE_KILL_CGROUP
	}
	return wirev1.TreeKill_TREE_KILL_WALK
}

// ignoreGone: a process that is a zombie by now takes no signal and needs none.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
