//go:build !linux

package procs

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// psTimeout bounds one call of ps.
const psTimeout = 10 * time.Second

// List reads the processes that ps shows.
func List() ([]Process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "ps", "-axo", "pid=,ppid=,state=,rss=,command=")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("list processes: ps: %w", err)
	}
	var list []Process
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		pid, perr := strconv.Atoi(f[0])
		parent, pperr := strconv.Atoi(f[1])
		rss, _ := strconv.ParseInt(f[3], 10, 64)
		if perr != nil || pperr != nil {
			continue
		}
		list = append(list, Process{
			PID: pid, Parent: parent, State: f[2][0], RSS: rss << 10, Command: strings.Join(f[4:], " "),
		})
	}
	return list, nil
}

// AddSockets does nothing here.
func AddSockets([]Process) {}
