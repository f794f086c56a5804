//go:build linux

package keeper

import (
	"fmt"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// forker forks from one thread that has given up ever gaining privileges: children inherit that, so no
// setuid program in the image lifts a command above its user. Children also die with that thread,
// which lives as long as the keeper: a command without a keeper would run on after it was told lost.
type forker struct {
	// usual is the nice value that commands get; ahead says that the thread has a better one.
	usual int
	ahead bool
}

// usualSlack is how late, in nanoseconds, the kernel wakes a process that has not asked for anything else (PR_SET_TIMERSLACK,
// prctl(2)). Children inherit it from the thread that forks, whatever this process has for itself.
const usualSlack = 50_000

// claimThread makes the calling goroutine's thread the one that forks. It is never unlocked: the thread
// ends with the goroutine, and its attribute with it.
func (f *forker) claimThread() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges to children: %w", err)
	}
	// A kernel without it had nothing to change.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0)
	f.goAhead()
	return nil
}

// lead is how far the forking thread, and the server that is forked from it, are ahead of commands for a processor, as a nice
// value. A fork holds this thread until the child has its program: without a lead it waits behind all that runs already, and a
// tenant that keeps the processors busy makes every start and every answer wait.
const lead = 10

// goAhead takes the lead where that is allowed (CAP_SYS_NICE).
func (f *forker) goAhead() {
	// The kernel answers 20 - nice, so that no answer looks like an error (getpriority(2)).
	flipped, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	f.usual = 20 - flipped
	f.ahead = unix.Setpriority(unix.PRIO_PROCESS, 0, max(f.usual-lead, -20)) == nil
}

// fall puts a command that was just forked, and what it may have forked since, where commands belong.
func (f *forker) fall(pid int) {
	if f.ahead {
		// It may have ended already.
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, f.usual)
	}
}

// fork starts the program of an order on its side of the streams, in a session of its own. It is called on
// the claimed thread.
func (f *forker) fork(program string, o *Order, child [3]int, group *cgroup) (int, error) {
	attr := &syscall.ProcAttr{
		Dir:   o.Dir,
		Env:   strs(o.Env),
		Files: []uintptr{uintptr(child[0]), uintptr(child[1]), uintptr(child[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if o.Terminal != nil {
		attr.Sys.Setctty = true
	}
	if o.User != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: o.User.Groups}
	}
	if group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, group.fd
	}
	pid, err := syscall.ForkExec(program, strs(o.Argv), attr)
	if err == nil {
		f.fall(pid)
	}
	return pid, err
}

func strs(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// ends are both sides of an exec's standard streams: the child's, which are closed after the fork, and
// ours, which are held.
type ends struct {
	child  [3]int
	opened []int // the child's side, to close
	own    descriptors
}

func openEnds(o *Order, null int) (*ends, error) {
	e := &ends{own: noDescriptors()}
	err := e.openOutput(o)
	if err == nil {
		err = e.openStdin(o, null)
	}
	if err != nil {
		e.closeChildSide()
		e.own.closeAll()
		return nil, err
	}
	return e, nil
}

func (e *ends) openOutput(o *Order) error {
	if o.Terminal != nil {
		return e.openTerminal(o)
	}
	var err error
	if e.own[fdStdout], e.child[1], err = e.pipe(o.User); err != nil {
		return err
	}
	if o.Merge {
		e.child[2] = e.child[1]
		return nil
	}
	e.own[fdStderr], e.child[2], err = e.pipe(o.User)
	return err
}

// pipe makes a pipe whose read end, ours, never blocks and whose inode belongs to the user: opening
// /dev/stdout by name asks for permission on it.
func (e *ends) pipe(u *User) (ours, childs int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	e.opened = append(e.opened, fds[1])
	// A new pipe has no flags that would have to be read first and kept, as SetNonblock does.
	if _, err = unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_NONBLOCK); err == nil && u != nil {
		err = unix.Fchown(fds[1], int(u.UID), int(u.GID))
	}
	if err != nil {
		_ = unix.Close(fds[0])
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	return fds[0], fds[1], nil
}

// openTerminal makes a terminal, and the pipe that its output is stored through.
func (e *ends) openTerminal(o *Order) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	e.own[fdTerminal] = master
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	slave, err := openSlave(master)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	e.opened = append(e.opened, slave)
	e.child = [3]int{slave, slave, slave}
	if err := unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(o.Terminal.Cols), Row: uint16(o.Terminal.Rows)}); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	if o.User != nil {
		if err := unix.Fchown(slave, int(o.User.UID), int(o.User.GID)); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
	}
	e.own[fdStdout], e.own[fdFeed], err = ownPipe()
	return err
}

// openSlave opens a terminal's other side: by the master itself, because /dev/pts may be another
// namespace's; by its name where the kernel (before 4.13) knows no other way.
func openSlave(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

// ownPipe makes a pipe both of whose ends are ours and never block.
func ownPipe() (r, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	return fds[0], fds[1], nil
}

func (e *ends) openStdin(o *Order, null int) error {
	switch {
	case o.Stdin == StdinPipe:
		return e.openStdinPipe(o)
	case o.Terminal != nil:
		return nil
	case o.Stdin == StdinContent:
		return e.openContent(o)
	}
	e.child[0] = null
	return nil
}

// openContent puts the content in a file of memory: a pipe could be smaller than it.
func (e *ends) openContent(o *Order) error {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	e.opened = append(e.opened, fd)
	e.child[0] = fd
	for at := 0; at < len(o.Content); {
		n, err := unix.Pwrite(fd, o.Content[at:], int64(at))
		if err != nil {
			return fmt.Errorf("stdin: %w", err)
		}
		at += n
	}
	if o.User == nil {
		return nil
	}
	if err := unix.Fchown(fd, int(o.User.UID), int(o.User.GID)); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	return nil
}

// openStdinPipe makes what a piped stdin goes through: memory for accepted bytes, memory for their
// hash, and a pipe to the child, or to its terminal.
func (e *ends) openStdinPipe(o *Order) error {
	var err error
	for _, slot := range []int{fdStdin, fdStdinHash} {
		if e.own[slot], err = unix.MemfdCreate("stdin", unix.MFD_CLOEXEC); err != nil {
			e.own[slot] = -1
			return fmt.Errorf("stdin: %w", err)
		}
	}
	if o.Terminal != nil {
		e.own[fdStdinTail], e.own[fdStdinPipe], err = ownPipe()
		return err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	e.child[0], e.own[fdStdinPipe] = fds[0], fds[1]
	e.opened = append(e.opened, fds[0])
	if err = unix.SetNonblock(fds[1], true); err == nil && o.User != nil {
		err = unix.Fchown(fds[0], int(o.User.UID), int(o.User.GID))
	}
	if err != nil {
		return fmt.Errorf("stdin: %w", err)
	}
	return nil
}

func (e *ends) closeChildSide() { closeAll(e.opened) }
