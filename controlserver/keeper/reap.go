package keeper

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
)

// reapLoop waits for children's ends. SIGCHLDs merge, so one of them may stand for many ends.
func (k *Local) reapLoop() {
	for {
		select {
		case <-k.done:
			return
		case <-k.chld:
		case <-k.wake:
		}
		for _, ended := range k.reap() {
			k.notify(ended)
		}
	}
}

// reap collects every child that has ended, and records each end before it is told.
func (k *Local) reap() []Ended {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.adopt {
		return k.reapAny()
	}
	var all []Ended
	for pid := range k.children {
		if e, ok := k.wait(pid); ok {
			all = append(all, e...)
		}
	}
	return all
}

// reapAny asks for whichever child has ended: orphans are collected with the rest, and cannot take the
// status of an exec's process with them (BitterSecurity/Decepticon#340).
func (k *Local) reapAny() []Ended {
	var all []Ended
	for {
		e, ok := k.wait(-1)
		if !ok {
			return all
		}
		all = append(all, e...)
	}
}

// wait collects one child. False: none has ended.
func (k *Local) wait(pid int) ([]Ended, bool) {
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		got, err := unix.Wait4(pid, &status, unix.WNOHANG, &usage)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got <= 0 {
			return nil, false
		}
		pid = got
		break
	}
	c, ok := k.children[pid]
	if !ok {
		return nil, true
	}
	delete(k.children, pid)
	delete(k.byID, c.id)
	ended := Ended{ID: c.id, Cause: c.cause, Ended: spool.Ended{
		At: time.Now().UnixMilli(), UserUS: usage.Utime.Nano() / 1000, SystemUS: usage.Stime.Nano() / 1000,
		MaxRSS: usage.Maxrss << 10,
	}}
	if status.Signaled() {
		ended.Signal, ended.Core = int(status.Signal()), status.CoreDump()
	} else {
		ended.Code = status.ExitStatus()
	}
	if err := k.spool.AppendEnded(c.id, ended.Ended); err != nil {
		k.log.Error("end is not on record", "exec", c.id, "error", err)
	}
	return []Ended{ended}, true
}
