package remote

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

const (
	// defaultCollected is what Exec collects of a stream, where the command does not say.
	defaultCollected = 16 << 20
	// defaultGrace is the machine's own time between TERM and KILL.
	defaultGrace = 5 * time.Second
	// lastWords is how long the end of a command that was killed is waited for.
	lastWords = 5 * time.Second
)

// Exec runs a command to its end.
func (s *Sandbox) Exec(ctx context.Context, command sandbox.Command) (sandbox.Result, error) {
	if ctx.Err() != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	command, spec, source, err := s.specify(command)
	if err != nil {
		return sandbox.Result{}, err
	}
	most := command.MaxOutput
	if most <= 0 {
		most = defaultCollected
	}
	got := &collector{most: most}
	live, stop := s.outlive(ctx, command)
	defer stop()
	result, err := s.over(command).Run(live, client.Command{
		ID: command.ID, Spec: spec, IfEpoch: command.IfEpoch, Follow: client.Follow{Wait: s.wait, Patience: s.patience, Stdin: source},
	}, got)
	out := sandbox.Result{Exit: exitOf(command.ID, result.Exit), Stdout: got.stdout.bytes, Stderr: got.stderr.bytes}
	if result.Exit == nil {
		out.Ends = endsOf(result.Offsets)
	}
	switch {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case err != nil:
		return out, failure(ctx, err)
	case result.Lost != nil:
		return out, lost(command.ID, result.Lost)
	}
	return out, nil
}

// over chooses the connection: much input goes beside the prompts' one.
func (s *Sandbox) over(command sandbox.Command) *client.Client {
	if len(command.Stdin) > bulkBytes {
		return s.bulk
	}
	return s.control
}

// outlive is the context that a command is followed under: when ctx ends, its process group is told to end, and killed after the
// grace; the context ends some time after that.
func (s *Sandbox) outlive(ctx context.Context, command sandbox.Command) (context.Context, func()) {
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		select {
		case <-live.Done():
			return
		case <-ctx.Done():
		}
		grace := command.TermGrace
		if grace <= 0 {
			grace = defaultGrace
		}
		for _, step := range []struct {
			signal syscall.Signal
			wait   time.Duration
		}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, lastWords}} {
			limited, end := context.WithTimeout(live, lastWords)
			_, err := repeat(limited, s.link, func(ctx context.Context) (*wirev1.SignalResponse, error) {
				return s.control.Signal(ctx, command.ID, int32(step.signal), wirev1.SignalTarget_SIGNAL_TARGET_GROUP)
			})
			end()
			if err != nil {
				s.log.Warn("a command whose caller is gone was not signalled", "exec", command.ID, "error", err)
				return
			}
			if pause(live, step.wait) != nil {
				return
			}
		}
	}()
	return live, func() { cancel(); <-done }
}

// Start returns once there is a process.
func (s *Sandbox) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	command, spec, source, err := s.specify(command)
	if err != nil {
		return nil, err
	}
	result, err := s.control.Start(ctx, client.Command{
		ID: command.ID, Spec: spec, IfEpoch: command.IfEpoch, Follow: client.Follow{Wait: s.wait, Patience: s.patience},
	})
	if err != nil {
		return nil, failure(ctx, err)
	}
	if result.Lost != nil && result.Started == nil {
		return nil, lost(command.ID, result.Lost)
	}
	if source != nil && result.Started != nil {
		s.feed(command)
	}
	return s.process(ctx, command.ID, result.Started)
}

// feed sends all of a started command's input, as fast as it reads, under the sandbox's life.
func (s *Sandbox) feed(command sandbox.Command) {
	s.feeder.Go(func() {
		p := &process{link: s.link, id: command.ID}
		if err := p.write(s.life, s.bulk, 0, command.Stdin, true); err != nil && s.life.Err() == nil && !errors.Is(err, sandbox.ErrUnknown) {
			s.log.Warn("a command did not get all of its input", "exec", command.ID, "error", err)
		}
	})
}

// process makes the handle. A command without a process, or whose end alone is known, tells no epoch: it is the present one's.
func (s *Sandbox) process(ctx context.Context, id string, started *wirev1.Started) (sandbox.Process, error) {
	p := &process{link: s.link, id: id, epoch: started.GetEpoch()}
	if p.epoch == "" {
		hello, err := repeat(ctx, s.link, s.control.Hello)
		if err != nil {
			return nil, err
		}
		p.epoch = hello.GetEpoch()
	}
	return p, nil
}

// errSeen ends an Attach that only asks.
var errSeen = errors.New("seen")

// seen is a Sink that stops at the first sign of an exec.
type seen struct{ started *wirev1.Started }

func (s *seen) Started(m *wirev1.Started) error            { s.started = m; return errSeen }
func (s *seen) Output(wirev1.Stream, uint64, []byte) error { return errSeen }
func (s *seen) Gap(*wirev1.Gap) error                      { return errSeen }
func (s *Sandbox) follow() client.Follow                   { return client.Follow{Wait: s.wait, Patience: s.patience} }

func endsOf(o *wirev1.Offsets) sandbox.Offsets {
	return sandbox.Offsets{Stdout: int64(o.GetStdout()), Stderr: int64(o.GetStderr())}
}

// Attach finds a command.
func (s *Sandbox) Attach(ctx context.Context, id string) (sandbox.Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if _, err := wire.IDTime(id); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnknown, err)
	}
	follow, sink := s.follow(), &seen{}
	follow.Once = true
	if _, err := s.control.Attach(ctx, id, follow, sink); err != nil && !errors.Is(err, errSeen) {
		return nil, failure(ctx, err)
	}
	return s.process(ctx, id, sink.started)
}

// Forbid makes an id one that never starts.
func (s *Sandbox) Forbid(ctx context.Context, id string) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	state, err := repeat(ctx, s.link, func(ctx context.Context) (wirev1.ExecState, error) { return s.control.Forbid(ctx, id) })
	if err != nil {
		return false, err
	}
	return state == wirev1.ExecState_EXEC_STATE_FORBIDDEN, nil
}

// collector keeps the first bytes of both streams.
type collector struct {
	most           int64
	stdout, stderr collected
}

type collected struct {
	bytes []byte
	over  bool // a hole, or the limit: what follows has no place
}

func (c *collector) of(s wirev1.Stream) *collected {
	if s == wirev1.Stream_STREAM_STDERR {
		return &c.stderr
	}
	return &c.stdout
}

func (c *collector) Started(*wirev1.Started) error { return nil }

func (c *collector) Output(s wirev1.Stream, _ uint64, data []byte) error {
	to := c.of(s)
	if room := c.most - int64(len(to.bytes)); !to.over {
		to.bytes = append(to.bytes, data[:min(int64(len(data)), room)]...)
		to.over = int64(len(data)) > room
	}
	return nil
}

func (c *collector) Gap(g *wirev1.Gap) error {
	c.of(g.GetStream()).over = true
	return nil
}
