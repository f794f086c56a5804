// Package procs reads the system's process list: what `ps` shows, and who descends from whom.
package procs

import "time"

// Process is one row. Where the system is not Linux, times, directory and sockets are not told.
type Process struct {
	PID, Parent int
	// State is the letter that ps shows: R, S, D, T (stopped), Z and so on.
	State            byte
	Started, CPUTime time.Duration
	Command          string
	Directory        string
	RSS              int64
	Listen           []Socket
}

// Socket is one listening socket.
type Socket struct{ Proto, Address string }

// Descendants lists the processes below root, not root itself, parents before their children.
func Descendants(root int) ([]Process, error) {
	list, err := List()
	if err != nil {
		return nil, err
	}
	children := map[int][]Process{}
	for _, p := range list {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var out []Process
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			out = append(out, p)
			todo = append(todo, p.PID)
		}
	}
	return out, nil
}
