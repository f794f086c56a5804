package local

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// killTree signals a session's leader, its group and session, and whoever descends from it. A daemon that made its
// own session and whose parent has ended escapes.
func killTree(leader int, signal syscall.Signal) error {
	// Listed before: who loses its parent is no longer told from others.
	all := below(processes(), leader)
	err := ignoreGone(syscall.Kill(-leader, signal))
	for _, pid := range all {
		err = errors.Join(err, ignoreGone(syscall.Kill(pid, signal)))
	}
	return err
}

// processes reads /proc; what ends meanwhile is left out.
func processes() []relative {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []relative
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state parent group session: the name may hold blanks and parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 4 {
			continue
		}
		parent, err1 := strconv.Atoi(string(fields[1]))
		session, err2 := strconv.Atoi(string(fields[3]))
		if err1 == nil && err2 == nil {
			all = append(all, relative{pid, parent, session})
		}
	}
	return all
}
