//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Reap collects every child of this process that ends, orphans too, until ctx ends. It owns the
// process's children: no other part of it may wait for one.
func (k *Core) Reap(ctx context.Context) error {
	// While there is no child to wait for, the first to come announces itself by its end.
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGCHLD)
	defer signal.Stop(ends)
	for ctx.Err() == nil {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			for _, ended := range k.reap() {
				crashpoint.At(crashpoint.ExitNotify)
				k.notify(ended)
			}
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			select {
			case <-ends:
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("wait for children: %w", err)
		}
	}
	return nil
}

// reap collects whichever children have ended, and records each exec's end before it is told. Orphans
// are collected with the rest, and cannot take the status of an exec's process with them
// (BitterSecurity/Decepticon#340).
func (k *Core) reap() []Ended {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Ended
	orphans := false
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			if orphans {
				k.haunted = slices.DeleteFunc(k.haunted, (*cgroup).gone)
			}
			return all
		}
		if tell, ok := k.foreign[pid]; ok {
			delete(k.foreign, pid)
			tell(status)
		} else if c, ok := k.children[pid]; ok {
			all = append(all, k.end(c, status, usage))
		} else {
			orphans = true
		}
	}
}

// end records how an exec's process ended.
func (k *Core) end(c *child, status unix.WaitStatus, usage unix.Rusage) Ended {
	delete(k.children, c.pid)
	e := Ended{ID: c.id, Ended: spool.Ended{
		At: time.Now().UnixMilli(), UserUS: usage.Utime.Nano() / 1000, SystemUS: usage.Stime.Nano() / 1000,
		MaxRSS: usage.Maxrss << 10,
	}}
	if status.Signaled() {
		e.Signal, e.Core = int(status.Signal()), status.CoreDump()
	} else {
		e.Code = status.ExitStatus()
	}
	if e.Signal == int(unix.SIGKILL) && c.cause == wirev1.ExitCause_EXIT_CAUSE_EXITED && k.ooms.roseSince(c.ooms) {
		e.OutOfMemory = true
	}
	e.Cause = spool.CauseOf(c.cause, e.Ended)
	c.ended = &e
	if err := k.spool.AppendEnded(c.id, e.Ended); err != nil {
		k.log.Error("end is not on record", "exec", c.id, "error", err)
	}
	return e
}
