// Package floor is the least that the work behind a figure costs on this computer, taken in the same run:
// what any program pays that starts a process or moves bytes. A figure's ratio can be compared between
// commits only while its floor does the same, so this code is frozen: it changes only together with a
// new name for the figure.
package floor

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Run is a bare os/exec of a command, without streams, from call to exit.
func Run(ctx context.Context, name string, args ...string) (time.Duration, error) {
	begin := time.Now()
	if err := exec.CommandContext(ctx, name, args...).Run(); err != nil {
		return 0, fmt.Errorf("floor: %s: %w", name, err)
	}
	return time.Since(begin), nil
}

// Pipe reads all that a command prints through one pipe into a buffer of 128 KiB, and returns how much
// that was and how long it took.
func Pipe(ctx context.Context, name string, args ...string) (int64, time.Duration, error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, fmt.Errorf("floor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("floor: %s: %w", name, err)
	}
	n, err := io.CopyBuffer(plain{io.Discard}, out, make([]byte, 128<<10))
	if err != nil {
		return 0, 0, fmt.Errorf("floor: read: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return 0, 0, fmt.Errorf("floor: %s: %w", name, err)
	}
	return n, time.Since(begin), nil
}

// plain hides io.Discard's ReaderFrom, which would bring a buffer of its own.
type plain struct{ io.Writer }

// Together runs a command n times at once, each with its output read through a pipe, and returns how long
// all of them took.
func Together(ctx context.Context, n int, name string, args ...string) (time.Duration, error) {
	begin := time.Now()
	failures := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { _, failures[i] = exec.CommandContext(ctx, name, args...).Output() })
	}
	wait.Wait()
	for _, err := range failures {
		if err != nil {
			return 0, fmt.Errorf("floor: %s: %w", name, err)
		}
	}
	return time.Since(begin), nil
}
