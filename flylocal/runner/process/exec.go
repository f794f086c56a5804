package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
)

var errTimeout = errors.New("the command's time is over")

// Exec runs a command with the machine's environment, in a process group of its own.
func (i *instance) Exec(ctx context.Context, req runner.ExecRequest) (runner.ExecResult, error) {
	if err := i.refuse(); err != nil {
		return runner.ExecResult{}, err
	}
	if len(req.Argv) == 0 {
		return runner.ExecResult{}, errors.New("a command needs a name")
	}
	path, err := i.layout.program(req.Argv[0])
	if err != nil {
		return runner.ExecResult{}, fmt.Errorf("find the command: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.life, cancel)() //nolint:contextcheck // the machine's life is the other bound
	if req.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, req.Timeout, errTimeout)
		defer stop()
	}
	var stdout, stderr bounded
	cmd := exec.CommandContext(ctx, path, req.Argv[1:]...)
	cmd.Args[0] = req.Argv[0]
	cmd.Env, cmd.Dir = i.layout.env, i.workDir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(req.Stdin), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drainTimeout
	if err := i.startCommand(cmd); err != nil {
		return runner.ExecResult{}, fmt.Errorf("start the command: %w", err)
	}
	_ = cmd.Wait() // its state says more
	i.endCommand(cmd.Process.Pid)
	result := runner.ExecResult{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.kept, Stderr: stderr.kept}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		result.Signal = int(status.Signal())
		result.Code = 128 + result.Signal
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errTimeout) {
			result.TimedOut = true
			return result, nil
		}
		if i.life.Err() != nil {
			return runner.ExecResult{}, runner.ErrDown
		}
		return runner.ExecResult{}, cause
	}
	return result, nil
}

// startCommand starts it and remembers its process group.
func (i *instance) startCommand(cmd *exec.Cmd) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	i.commands[cmd.Process.Pid] = true
	return nil
}

// endCommand ends what the command left in its group: nothing would, once the machine is down.
func (i *instance) endCommand(group int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.commands, group)
	_ = syscall.Kill(-group, syscall.SIGKILL) // mostly there is nobody
}

// bounded keeps the first bytes written to it.
type bounded struct{ kept []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), runner.MaxExecOutput-len(b.kept))]...)
	return len(p), nil
}
