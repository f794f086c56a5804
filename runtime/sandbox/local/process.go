package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// process is a view on a command; it holds nothing.
type process struct {
	sandbox *Sandbox
	command *command
}

var _ sandbox.Process = process{}

func (p process) ID() string    { return p.command.id }
func (p process) Epoch() string { return p.sandbox.epoch }

func (p process) Follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	return p.command.follow(ctx, from, take)
}

func (p process) Write(ctx context.Context, offset int64, data []byte, eof bool) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if !p.command.interactive {
		return fmt.Errorf("write to a command without an open stdin: %w", syscall.EINVAL)
	}
	if p.command.stdin == nil {
		// It never got a process: nobody reads.
		return nil
	}
	return p.command.stdin.write(ctx, offset, data, eof)
}

func (p process) Signal(ctx context.Context, signal int, target sandbox.Target) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	if signal < 1 || signal > 64 {
		return false, fmt.Errorf("signal %d: %w", signal, syscall.EINVAL)
	}
	if p.command.result() == nil {
		p.command.blame(sandbox.CauseSignalled)
	}
	return p.command.signal(syscall.Signal(signal), target)
}

func (p process) Resize(ctx context.Context, size sandbox.Size) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if !p.command.terminal {
		return fmt.Errorf("resize a command without a terminal: %w", syscall.EINVAL)
	}
	if p.command.result() != nil {
		return nil
	}
	if err := pty.Setsize(p.command.pumps[0].file, windowOf(size)); err != nil && p.command.result() == nil {
		return fmt.Errorf("resize a terminal: %w", err)
	}
	return nil
}

func (p process) Hold(ctx context.Context, key string, d time.Duration) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if p.command.limits != nil {
		p.command.limits.hold(key, d)
	}
	return nil
}

func (p process) Forget(ctx context.Context) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if p.command.result() == nil {
		return fmt.Errorf("forget a command that runs: %w", syscall.EBUSY)
	}
	p.command.drop()
	p.sandbox.ledger.grown(p.command.entry, 512)
	return nil
}

func isGone(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone)
}
