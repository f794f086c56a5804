//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// signalTree reaches every process of an exec: all of its cgroup, or else its group, its session and
// whoever descends from it. A daemon that made its own session and whose parent has ended escapes the
// latter.
func (k *Core) signalTree(c *child, sig unix.Signal) (Hit, error) {
	hit := Hit{Delivered: true, ReachedBy: wirev1.TreeKill_TREE_KILL_WALK}
	if c.group != nil {
		hit.ReachedBy = wirev1.TreeKill_TREE_KILL_CGROUP
		if sig == unix.SIGKILL {
			return hit, c.group.kill()
		}
		pids, err := c.group.pids()
		if err != nil {
			return hit, fmt.Errorf("list a cgroup: %w", err)
		}
		for _, f := range strings.Fields(string(pids)) {
			if pid, convErr := strconv.Atoi(f); convErr == nil {
				err = errors.Join(err, ignoreGone(unix.Kill(pid, sig)))
			}
		}
		return hit, err
	}
	all, err := processes()
	if err != nil {
		return hit, err
	}
	err = ignoreGone(unix.Kill(-c.pid, sig))
	for _, pid := range below(all, c.pid, true) {
		err = errors.Join(err, ignoreGone(unix.Kill(pid, sig)))
	}
	hit.MayHaveEscaped = k.orphans(all)
	return hit, err
}

// orphans says whether this process has children that are no exec's leader: of some exec they were.
func (k *Core) orphans(all []process) bool {
	own := os.Getpid()
	for _, p := range all {
		if p.parent != own || p.zombie {
			continue
		}
		if _, server := k.foreign[p.pid]; k.children[p.pid] == nil && !server {
			return true
		}
	}
	return false
}

// Sweep signals every process below this one but the server. A process that forks meanwhile may need
// another call.
func (k *Core) Sweep(signal int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, err := processes()
	if err != nil {
		return err
	}
	for _, pid := range below(all, os.Getpid(), false) {
		if _, server := k.foreign[pid]; !server {
			err = errors.Join(err, ignoreGone(unix.Kill(pid, unix.Signal(signal))))
		}
	}
	return err
}

// signalForeign signals a child that is no exec's, unless it was reaped.
func (k *Core) signalForeign(pid int, sig unix.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, lives := k.foreign[pid]; lives {
		_ = unix.Kill(pid, sig)
	}
}

// sweepOut kills until nothing is left below this process.
func (k *Core) sweepOut() error {
	for range 100 {
		if err := k.Sweep(int(unix.SIGKILL)); err != nil {
			return fmt.Errorf("end what is left: %w", err)
		}
		all, err := processes()
		if err != nil {
			return err
		}
		if len(below(all, os.Getpid(), false)) == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("processes are left that no KILL ends")
}

// process is what /proc tells of one process.
type process struct {
	pid, parent, session int
	zombie               bool
}

// processes reads /proc once. A process that ends meanwhile is left out.
func processes() ([]process, error) {
	// In a new PID namespace under the old /proc, its numbers mean other processes.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("list processes: /proc is of another PID namespace")
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", name, "stat"))
		if err != nil {
			continue
		}
		if p, ok := parseStat(pid, stat); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// parseStat reads fields 3 (state), 4 (parent) and 6 (session) of /proc/<pid>/stat. The name in field 2
// may hold spaces and parentheses, so fields are counted from its last ')'.
func parseStat(pid int, stat []byte) (process, bool) {
	_, rest, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	if !ok {
		return process{}, false
	}
	fields := bytes.Fields(rest)
	if len(fields) < 4 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	session, err2 := strconv.Atoi(string(fields[3]))
	return process{pid, parent, session, fields[0][0] == 'Z'}, err1 == nil && err2 == nil
}

// below collects a process's children and theirs, with its session's members and their children when
// sessions count.
func below(all []process, root int, sessions bool) []int {
	in := map[int]bool{root: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && (in[p.parent] || sessions && p.session == root) {
				in[p.pid], grown = true, true
			}
		}
	}
	var out []int
	for _, p := range all {
		if in[p.pid] && p.pid != root {
			out = append(out, p.pid)
		}
	}
	return out
}

// protect lowers this process's OOM score, where it may: without it everything is lost. Children would
// inherit that, so they are put back.
func (k *Core) protect() {
	k.tame = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o600) == nil
}

func tame(pid int) {
	f, err := spool.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("0")
}
