//go:build linux

package controlserver

import (
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

// slack is how late the kernel may wake a thread of ours from a sleep. While a Go program does anything, a thread of its runtime
// looks every 20 µs whether another is stuck in a system call. With the kernel's usual slack of 50 µs that took a fifth of all
// that the server did while many commands started at once.
const slack = 250 * time.Microsecond

// Tune fits the Go runtime to a small guest in a small machine. Call it before threads are many.
func Tune() {
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)
	// Threads to come have it from those that make them. Who may not change other threads keeps what they have.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		// Found there by a thread's number as well, though not listed (proc(5)).
		_ = os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", strconv.AppendInt(nil, slack.Nanoseconds(), 10), 0)
	}
}
