package killtest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// load keeps a machine busy with every kind of exec, each checked to its last byte.
type load struct {
	m      *machine
	ledger *ledger
	// lines of one long stream, and of one stream of many small writes.
	streamLines, slowLines int
	next                   atomic.Int64
	// finished are short execs that nobody looks at any more.
	finished chan finished
	// running is an exec that prints slowly now.
	running atomic.Pointer[string]
}

// finished is a short exec with its known result.
type finished struct {
	id   string
	n    int64
	spec *wirev1.ExecSpec
}

func newLoad(m *machine, l *ledger, streamLines, slowLines int) *load {
	return &load{m: m, ledger: l, streamLines: streamLines, slowLines: slowLines, finished: make(chan finished, 64)}
}

// workers are what runs side by side, each again and again.
func (l *load) workers(features []string) []func(context.Context, *client.Client) error {
	return []func(context.Context, *client.Client) error{l.short, l.short, l.short, l.stream, l.slow, l.attach}
}

// run runs every worker until enough is closed, and returns the first failure.
func (l *load) run(ctx context.Context, features []string, enough <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, work := range l.workers(features) {
		c := l.m.Client(machinetest.ClientOptions{})
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-enough:
					return
				default:
				}
				if err := work(ctx, c); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// short is a command of a moment, with a little output on both streams.
func (l *load) short(ctx context.Context, c *client.Client) error {
	f := finished{id: l.ledger.ask(), n: l.next.Add(1)}
	f.spec = script(f.id, `printf 'out %s\n' "$1"; printf 'err %s\n' "$1" >&2; exit $(($1 % 100))`, strconv.FormatInt(f.n, 10))
	var out, errs bytes.Buffer
	got, err := c.Run(ctx, client.Command{ID: f.id, Spec: f.spec, Follow: patient}, client.Writers(&out, &errs))
	if err == nil {
		err = f.check(got, out.String(), errs.String())
	}
	if err != nil {
		return fmt.Errorf("short exec %s: %w", f.id, err)
	}
	l.ledger.right(f.id, int64(out.Len()+errs.Len()))
	select {
	case l.finished <- f:
	default:
	}
	return nil
}

func (f finished) check(got client.Result, out, errs string) error {
	if err := right(got, int32(f.n%100)); err != nil {
		return err
	}
	if out != fmt.Sprintf("out %d\n", f.n) || errs != fmt.Sprintf("err %d\n", f.n) {
		return fmt.Errorf("printed %q and %q", out, errs)
	}
	return nil
}

// stream is a command that prints as fast as it can.
func (l *load) stream(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	spec := script(id, `exec seq 10000000 "$1"`, strconv.Itoa(firstLine+l.streamLines-1))
	return l.text(ctx, c, id, spec, "\n", l.streamLines)
}

const slowly = `i=10000000; while [ $i -lt "$1" ]; do echo $i; i=$((i+1)); done`

// slow is a command of very many small writes.
func (l *load) slow(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	l.running.Store(&id)
	return l.text(ctx, c, id, script(id, slowly, strconv.Itoa(firstLine+l.slowLines)), "\n", l.slowLines)
}

// text runs a command that prints a numbered text and exits with 0.
func (l *load) text(ctx context.Context, c *client.Client, id string, spec *wirev1.ExecSpec, newline string, lines int) error {
	sink := &numberedSink{numbered: numbered{newline}}
	got, err := c.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, sink)
	if err == nil {
		err = right(got, 0)
	}
	if want := sink.lines(lines); err == nil && (sink.end != want || got.Exit.GetStdoutEnd() != want) {
		err = fmt.Errorf("%d bytes came, the exit says %d, want %d", sink.end, got.Exit.GetStdoutEnd(), want)
	}
	if err != nil {
		return fmt.Errorf("exec %s of %d lines: %w", id, lines, err)
	}
	l.ledger.right(id, int64(sink.end))
	return nil
}

// attach reads what ran before once more, and follows what runs beside its own client.
func (l *load) attach(ctx context.Context, c *client.Client) error {
	select {
	case f := <-l.finished:
		var out, errs bytes.Buffer
		got, err := c.Attach(ctx, f.id, patient, client.Writers(&out, &errs))
		if err == nil {
			err = f.check(got, out.String(), errs.String())
		}
		if err != nil {
			return fmt.Errorf("attach to the finished exec %s: %w", f.id, err)
		}
	case <-ctx.Done():
		return nil
	}
	id := l.running.Load()
	if id == nil || l.next.Load()%16 != 0 {
		return nil
	}
	sink := &numberedSink{numbered: numbered{"\n"}}
	got, err := c.Attach(ctx, *id, patient, sink)
	if unknown(err) {
		// Its own client is about to start it.
		return nil
	}
	if err == nil {
		err = right(got, 0)
	}
	if want := sink.lines(l.slowLines); err == nil && sink.end != want {
		err = fmt.Errorf("%d bytes came, want %d", sink.end, want)
	}
	if err != nil {
		return fmt.Errorf("attach to the running exec %s: %w", *id, err)
	}
	return nil
}
