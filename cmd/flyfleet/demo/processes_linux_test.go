package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// processes finds what a demo left running: orphans become children of this process.
type processes struct{ before map[string]bool }

func watchProcesses(t *testing.T) *processes {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	p := &processes{before: map[string]bool{}}
	for _, pid := range childPIDs(t) {
		p.before[pid] = true
	}
	return p
}

func (p *processes) none(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(settleLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		for _, pid := range childPIDs(t) {
			if !p.before[pid] && !reap(pid) {
				left = append(left, describe(pid))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running:\n%s", strings.Join(left, "\n"))
		}
		<-tick.C
	}
}

// reap takes an orphan that has ended.
func reap(pid string) bool {
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		return true
	}
	got, err := unix.Wait4(n, nil, unix.WNOHANG, nil)
	return got == n || err == unix.ECHILD
}

func childPIDs(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, task := range tasks {
		b, _ := os.ReadFile(task) // a thread may be gone
		out = append(out, strings.Fields(string(b))...)
	}
	return out
}

func describe(pid string) string {
	b, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	return pid + " " + strings.ReplaceAll(string(b), "\x00", " ")
}
