package local

import (
	"errors"
	"syscall"
)

// relative is what a process says of its descent.
type relative struct{ pid, parent, session int }

// below collects a leader's session and all descendants of it, without the leader.
func below(all []relative, leader int) []int {
	in := map[int]bool{leader: true}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && (in[p.parent] || p.session == leader) {
				in[p.pid], grown = true, true
			}
		}
	}
	var out []int
	for _, p := range all {
		if in[p.pid] && p.pid != leader {
			out = append(out, p.pid)
		}
	}
	return out
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
