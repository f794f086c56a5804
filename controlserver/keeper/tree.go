package keeper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// process is what /proc tells of one process.
type process struct{ pid, parent, session int }

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

// parseStat reads fields 4 (parent) and 6 (session) of /proc/<pid>/stat. The name in field 2 may hold
// spaces and parentheses, so fields are counted from its last ')'.
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
	return process{pid, parent, session}, err1 == nil && err2 == nil
}

// descendants are the processes below a leader or in its session, the leader left out. A daemon that
// made its own session and whose parent has ended is not among them.
func descendants(leader int) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	return below(all, leader, true), nil
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
