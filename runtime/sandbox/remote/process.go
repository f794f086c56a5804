package remote

import (
	"context"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// process is a command that was started. It holds nothing.
type process struct {
	*link

	id, epoch string
}

func (p *process) ID() string    { return p.id }
func (p *process) Epoch() string { return p.epoch }

// Follow hands over all output from the offsets on.
func (p *process) Follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{ID: p.id}, context.Cause(ctx)
	}
	if from.Stdout < 0 || from.Stderr < 0 {
		return sandbox.Exit{ID: p.id}, syscall.EINVAL
	}
	sink := &taker{take: take}
	result, err := p.control.Attach(ctx, p.id, client.Follow{
		Wait: p.wait, Patience: p.patience, From: &wirev1.Offsets{Stdout: uint64(from.Stdout), Stderr: uint64(from.Stderr)},
	}, sink)
	exit := exitOf(p.id, result.Exit)
	if result.Exit == nil {
		exit.Ends = endsOf(result.Offsets)
	}
	switch {
	case sink.failed != nil:
		return exit, sink.failed
	case err != nil:
		return exit, failure(ctx, err)
	case result.Lost != nil:
		return exit, lost(p.id, result.Lost)
	}
	return exit, nil
}

// taker is the Sink of a Follow.
type taker struct {
	take   func(sandbox.Output) error
	failed error
}

func streamOf(s wirev1.Stream) sandbox.Stream {
	if s == wirev1.Stream_STREAM_STDERR {
		return sandbox.Stderr
	}
	return sandbox.Stdout
}

func (t *taker) Started(*wirev1.Started) error { return nil }

func (t *taker) Output(s wirev1.Stream, offset uint64, data []byte) error {
	t.failed = t.take(sandbox.Output{Stream: streamOf(s), Offset: int64(offset), Data: data})
	return t.failed
}

func (t *taker) Gap(g *wirev1.Gap) error {
	t.failed = t.take(sandbox.Output{Stream: streamOf(g.GetStream()), Offset: int64(g.GetFrom()), Missing: int64(g.GetTo() - g.GetFrom())})
	return t.failed
}

// Write sends stdin from an offset on, and returns once the machine has taken all of it, or takes no more.
func (p *process) Write(ctx context.Context, offset int64, data []byte, eof bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if offset < 0 {
		return syscall.EINVAL
	}
	over := p.control
	if len(data) > bulkBytes {
		over = p.bulk
	}
	return p.write(ctx, over, offset, data, eof)
}

func (p *process) write(ctx context.Context, over *client.Client, offset int64, data []byte, eof bool) error {
	const firstPause, mostPause = 5 * time.Millisecond, 500 * time.Millisecond
	broken := time.Time{} // since when calls fail
	for wait := firstPause; ; {
		piece := data[:min(len(data), wire.MaxStdinChunk)]
		last := len(piece) == len(data)
		accepted, closed, err := over.WriteStdin(ctx, p.id, uint64(offset), piece, eof && last)
		if err != nil {
			if err := p.again(ctx, err, &broken); err != nil {
				return err
			}
		} else {
			broken = time.Time{}
			if closed {
				return nil
			}
			if n := int64(accepted) - offset; n > 0 {
				n = min(n, int64(len(piece)))
				data, offset, wait = data[n:], offset+n, firstPause
				if len(data) > 0 {
					continue
				}
			}
			if len(data) == 0 && !eof {
				return nil
			}
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, mostPause)
	}
}

var targets = map[sandbox.Target]wirev1.SignalTarget{
	sandbox.Leader: wirev1.SignalTarget_SIGNAL_TARGET_LEADER,
	sandbox.Group:  wirev1.SignalTarget_SIGNAL_TARGET_GROUP,
	sandbox.Tree:   wirev1.SignalTarget_SIGNAL_TARGET_TREE,
}

// Signal signals. A call whose answer is lost is repeated, so that a signal may arrive twice.
func (p *process) Signal(ctx context.Context, signal int, target sandbox.Target) (bool, error) {
	to, known := targets[target]
	if !known || signal < 1 || signal > 64 {
		return false, syscall.EINVAL
	}
	return repeat(ctx, p.link, func(ctx context.Context) (bool, error) {
		answer, err := p.control.Signal(ctx, p.id, int32(signal), to)
		return answer.GetDelivered(), err
	})
}

// Resize sets the size of its terminal.
func (p *process) Resize(ctx context.Context, size sandbox.Size) error {
	if size.Cols < 1 || size.Rows < 1 || size.Cols > 65535 || size.Rows > 65535 {
		return syscall.EINVAL
	}
	_, err := repeat(ctx, p.link, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.control.Resize(ctx, p.id, uint32(size.Cols), uint32(size.Rows))
	})
	return err
}

// Hold stops the count of its time limit.
func (p *process) Hold(ctx context.Context, key string, d time.Duration) error {
	_, err := repeat(ctx, p.link, func(ctx context.Context) (bool, error) { return p.control.Hold(ctx, p.id, key, millis(d)) })
	return err
}

// Forget drops its output.
func (p *process) Forget(ctx context.Context) error {
	_, err := repeat(ctx, p.link, func(ctx context.Context) (bool, error) { return p.control.Forget(ctx, p.id) })
	return err
}
