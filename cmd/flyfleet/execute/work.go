package execute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/terminal"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// work is one exec on one machine.
type work struct {
	*Command
	console *console.Console
	machine *reach.Machine
	sink    *sink

	screen    *os.File // the caller's terminal; nil without -t, or when there is none
	limitHere bool     // the machine keeps no wall limit, so that this program does
}

// prepare asks what the machine can do, when the flags want more than any machine does.
func (w *work) prepare(ctx context.Context) error {
	if w.Terminal {
		w.screen = w.terminal()
		if w.Interactive && !w.Detach && terminal.Of(w.console.In) == nil {
			return fmt.Errorf("%w: leave -t out to send it to the command as it is", terminal.ErrNone)
		}
	}
	if !w.Interactive && !w.Terminal && w.Timeout == 0 {
		return nil
	}
	hello, err := w.machine.Hello(ctx)
	if err != nil {
		return err
	}
	able := func(feature string) bool { return slices.Contains(hello.GetFeatures(), feature) }
	switch {
	case w.Interactive && !able(wire.FeatureStdin):
		return errors.New("its control server takes no stdin; swap the machine to a newer image, or leave -i out")
	case w.Terminal && !able(wire.FeaturePty):
		return errors.New("its control server has no terminals; swap the machine to a newer image, or leave -t out")
	}
	w.limitHere = w.Timeout > 0 && !able(wire.FeatureWallTimeout)
	return nil
}

// terminal is the caller's, for its size: the one that will show the output before the one typed on.
func (w *work) terminal() *os.File {
	if f := terminal.Of(w.console.Out); f != nil {
		return f
	}
	return terminal.Of(w.console.In)
}

func (w *work) do(ctx context.Context) (client.Result, error) {
	if w.Attach != "" {
		return w.follow(ctx, w.Attach, func(ctx context.Context, f client.Follow, sink client.Sink) (client.Result, error) {
			return w.machine.Attach(ctx, w.Attach, f, sink)
		})
	}
	id, err := wire.NewID()
	if err != nil {
		return client.Result{}, err
	}
	command := client.Command{ID: id, Spec: w.fullSpec()}
	if w.Detach {
		command.Wait = w.Wait
		return w.machine.Start(ctx, command)
	}
	return w.follow(ctx, id, func(ctx context.Context, f client.Follow, sink client.Sink) (client.Result, error) {
		command.Follow = f
		return w.machine.Run(ctx, command, sink)
	})
}

// fullSpec is the spec with what prepare found out.
func (w *work) fullSpec() *wirev1.ExecSpec {
	spec := w.spec()
	if w.Interactive {
		spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	}
	if w.Terminal {
		cols, rows := terminal.Size(w.screen)
		spec.Pty = &wirev1.Pty{Cols: cols, Rows: rows, Term: terminal.Name()}
	}
	if !w.limitHere {
		spec.WallTimeoutMs = w.Timeout.Milliseconds()
	}
	return spec
}

type runner func(context.Context, client.Follow, client.Sink) (client.Result, error)

// follow lends stdin and terminal to the exec while it is followed.
func (w *work) follow(ctx context.Context, id string, run runner) (client.Result, error) {
	// A reader that went is an error of the output, not the end of this program: the command is told.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	f := client.Follow{Wait: w.Wait, TermOnCancel: w.Attach == ""}
	if w.Interactive {
		f.Stdin = w.console.In
	}
	if w.limitHere {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, w.Timeout, fmt.Errorf("the time given by --timeout (%s) is over", w.Timeout))
		defer stop()
	}
	if !w.Terminal {
		return run(ctx, f, w.sink)
	}
	f.CancelSignal = sigHup
	if w.Interactive {
		raw, err := terminal.MakeRaw(terminal.Of(w.console.In))
		if err != nil {
			return client.Result{}, err
		}
		defer raw.Restore()
	}
	screen := &screenSink{Sink: w.sink, watch: func() func() { return w.keepSize(ctx, id) }}
	defer screen.close()
	return run(ctx, f, screen)
}

// keepSize gives the exec's terminal the size of the caller's, now and after each change.
func (w *work) keepSize(ctx context.Context, id string) (stop func()) {
	if w.screen == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := terminal.Resized(w.screen, func(cols, rows uint32) {
		// A size that does not arrive costs a badly drawn screen, and the next change mends it.
		_ = w.machine.Resize(ctx, id, cols, rows)
	})
	return func() {
		cancel()
		over()
	}
}

// screenSink watches the terminal's size from the moment at which there is a process to tell.
type screenSink struct {
	client.Sink
	watch func() (stop func())
	stop  func()
}

func (s *screenSink) Started(started *wirev1.Started) error {
	s.stop = s.watch()
	return s.Sink.Started(started)
}

func (s *screenSink) close() {
	if s.stop != nil {
		s.stop()
	}
}

// sigHup is SIGHUP's number on Linux, which every machine runs: what a terminal sends when it goes.
const sigHup = 1
