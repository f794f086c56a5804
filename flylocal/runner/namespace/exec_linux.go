package namespace

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/guest"
)

const (
	// drainTimeout bounds how long output is read after the command has ended: a child that it left behind may hold
	// the pipes.
	drainTimeout = 2 * time.Second
	// killTimeout bounds how long the end of a killed command is waited for.
	killTimeout = 10 * time.Second
)

// Exec runs a command in the machine as its root.
func (i *instance) Exec(ctx context.Context, req runner.ExecRequest) (runner.ExecResult, error) {
	i.mu.Lock()
	suspended := i.suspended
	i.mu.Unlock()
	if suspended && !i.down() {
		return runner.ExecResult{}, errSuspended
	}
	talk, err := i.open(guest.Request{Op: guest.OpExec, Argv: req.Argv})
	if err != nil {
		return runner.ExecResult{}, err
	}
	defer talk.Close()
	stop := bound(ctx, talk)
	_, pipes, err := i.receive(ctx, talk)
	stop()
	if err != nil {
		return runner.ExecResult{}, err
	}
	defer closeAll(pipes)
	if len(pipes) != 3 {
		return runner.ExecResult{}, errors.New("the init sent no pipes for the command")
	}
	streams := startStreams(pipes, req.Stdin)
	timedOut := make(chan struct{})
	stopKill := i.killWhenOver(ctx, req.Timeout, timedOut, func() {
		_ = talk.SetDeadline(time.Now().Add(killTimeout))
		_ = talk.CloseWrite() // the init kills the command
	})
	// Not under ctx: when that ends, the command is killed and its end still told.
	reply, _, err := i.receive(context.WithoutCancel(ctx), talk)
	stopKill()
	result := streams.finish()
	select {
	case <-timedOut:
		result.TimedOut = true
	default:
	}
	if cause := context.Cause(ctx); cause != nil && !result.TimedOut {
		return runner.ExecResult{}, cause
	}
	if err != nil {
		return runner.ExecResult{}, err
	}
	if reply.Ended == nil {
		return runner.ExecResult{}, errors.New("the init did not tell how the command ended")
	}
	result.Code, result.Signal = reply.Ended.Code, int(reply.Ended.Signal)
	return result, nil
}

// killWhenOver calls kill when ctx is done or, closing timedOut before, when timeout has passed. The result stops it.
func (i *instance) killWhenOver(ctx context.Context, timeout time.Duration, timedOut chan struct{}, kill func()) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var timer <-chan time.Time
		if timeout > 0 {
			t := time.NewTimer(timeout)
			defer t.Stop()
			timer = t.C
		}
		select {
		case <-over:
		case <-ctx.Done():
			kill()
		case <-timer:
			close(timedOut)
			kill()
		}
	})
	return func() {
		close(over)
		wg.Wait()
	}
}

// streams feed a command and collect its output.
type streams struct {
	wg             sync.WaitGroup
	pipes          []*os.File
	stdout, stderr []byte
}

func startStreams(pipes []*os.File, stdin []byte) *streams {
	s := &streams{pipes: pipes}
	s.wg.Go(func() {
		_, _ = pipes[0].Write(stdin) // a command need not read its input
		pipes[0].Close()
	})
	s.wg.Go(func() { s.stdout = readBounded(pipes[1]) })
	s.wg.Go(func() { s.stderr = readBounded(pipes[2]) })
	return s
}

// readBounded keeps the first bytes and reads on, so that the command is not held up by a full pipe.
func readBounded(r io.Reader) []byte {
	kept, _ := io.ReadAll(io.LimitReader(r, runner.MaxExecOutput)) // an error ends the output, like its end
	_, _ = io.Copy(io.Discard, r)
	return kept
}

func (s *streams) finish() runner.ExecResult {
	deadline := time.Now().Add(drainTimeout)
	for _, p := range s.pipes {
		_ = p.SetDeadline(deadline)
	}
	s.wg.Wait()
	return runner.ExecResult{Stdout: s.stdout, Stderr: s.stderr}
}
