package local

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// killTree signals a session's leader, its group, and whoever descends from it. A daemon whose parent has ended
// escapes.
func killTree(leader int, signal syscall.Signal) error {
	// Listed before: who loses its parent is no longer told from others.
	all := below(processes(), leader)
	err := ignoreGone(syscall.Kill(-leader, signal))
	for _, pid := range all {
		err = errors.Join(err, ignoreGone(syscall.Kill(pid, signal)))
	}
	return err
}

// processes asks the kernel. It does not tell sessions; the group stands for it.
func processes() []relative {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	all := make([]relative, 0, len(list))
	for _, p := range list {
		all = append(all, relative{int(p.Proc.P_pid), int(p.Eproc.Ppid), int(p.Eproc.Pgid)})
	}
	return all
}
