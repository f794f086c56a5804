package killtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// load keeps a machine busy with every kind of exec, each checked to its last byte.
type load struct {
	m      *machine
	ledger *ledger
	// lines of one long stream, and of one stream of many small writes.
	streamLines, slowLines int
	// most is the highest cap of a stream.
	most uint64
	next atomic.Int64
	// enough ends the load.
	enough chan struct{}
	// finished are short execs that nobody looks at any more.
	finished chan finished
	// owned is a client of a scope that changes hands all the time, fence its newest owner.
	owned *client.Client
	fence uint64
	// running is an exec that prints slowly now.
	running atomic.Pointer[string]
}

// finished is a short exec with its known result.
type finished struct {
	id   string
	n    int64
	spec *wirev1.ExecSpec
}

func newLoad(m *machine, l *ledger, g goal, most uint64) *load {
	return &load{owned: m.Client(machinetest.ClientOptions{Scope: takenOver}), m: m, ledger: l, streamLines: g.streamLines, slowLines: g.slowLines, most: most, enough: make(chan struct{}), finished: make(chan finished, 64)}
}

// run runs every worker until enough is closed, and returns the first failure.
func (l *load) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	// What runs side by side, each again and again.
	workers := []func(context.Context, *client.Client) error{l.short, l.short, l.short, l.stream, l.slow, l.capped, l.attach, l.stdin, l.terminal, l.forget, l.takeover}
	for _, work := range workers {
		c := l.m.Client(machinetest.ClientOptions{})
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-l.enough:
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
	spec.StdoutCapBytes = l.most
	if err := l.text(ctx, c, client.Command{ID: id, Spec: spec, Follow: patient}, "\n", l.streamLines); err != nil {
		return err
	}
	// All that is kept must stay below the machine's quota.
	return l.drop(ctx, c, id)
}

// capped is a command that prints more than is kept: its end is kept, and what arrives is in its place.
func (l *load) capped(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	lines := l.streamLines / 4
	spec := script(id, `exec seq 10000000 "$1"`, strconv.Itoa(firstLine+lines-1))
	spec.StdoutCapBytes, spec.CapPolicy = 2<<20, wirev1.CapPolicy_CAP_POLICY_KEEP_TAIL
	sink := &cappedSink{numberedSink: numberedSink{numbered: numbered{"\n"}}}
	got, err := c.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, sink)
	got.Gaps = nil
	if err == nil {
		err = right(got, 0)
	}
	if want := sink.lines(lines); err == nil && (sink.end != want || got.Exit.GetStdoutEnd() != want) {
		err = fmt.Errorf("bytes and gaps end at %d, the exit says %d, want %d", sink.end, got.Exit.GetStdoutEnd(), want)
	}
	if err != nil {
		return fmt.Errorf("capped exec %s: %w", id, err)
	}
	// Whoever comes late gets the whole tail.
	tail := &cappedSink{numberedSink: numberedSink{numbered: numbered{"\n"}}}
	_, err = c.Attach(ctx, id, patient, tail)
	if kept := tail.end - tail.left; err == nil && (tail.end != sink.end || kept < spec.GetStdoutCapBytes()) {
		err = fmt.Errorf("%d bytes are kept of %d, cap %d", kept, tail.end, spec.GetStdoutCapBytes())
	}
	if err != nil {
		return fmt.Errorf("capped exec %s read again: %w", id, err)
	}
	l.ledger.right(id, int64(tail.end-tail.left))
	return nil
}

const slowly = `i=10000000; while [ $i -lt "$1" ]; do echo $i; i=$((i+1)); done`

// slow is a command of very many small writes.
func (l *load) slow(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	l.running.Store(&id)
	return l.text(ctx, c, client.Command{ID: id, Spec: script(id, slowly, strconv.Itoa(firstLine+l.slowLines)), Follow: patient}, "\n", l.slowLines)
}

// text runs a command that prints a numbered text and exits with 0.
func (l *load) text(ctx context.Context, c *client.Client, command client.Command, newline string, lines int) error {
	sink := &numberedSink{numbered: numbered{newline}}
	got, err := c.Run(ctx, command, sink)
	if err == nil {
		err = right(got, 0)
	}
	if want := sink.lines(lines); err == nil && (sink.end != want || got.Exit.GetStdoutEnd() != want) {
		err = fmt.Errorf("%d bytes came, the exit says %d, want %d", sink.end, got.Exit.GetStdoutEnd(), want)
	}
	if err != nil {
		return fmt.Errorf("exec %s of %d lines: %w", command.ID, lines, err)
	}
	l.ledger.right(command.ID, int64(sink.end))
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
	case <-l.enough:
		return nil
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

// stdin is a command that gives back what it reads.
func (l *load) stdin(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	lines := l.slowLines
	text := numbered{"\n"}.at(0, lines*9)
	spec := script(id, "exec cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	if l.next.Load()%2 == 0 {
		sum := sha256.Sum256(text)
		spec.Stdin.Length, spec.Stdin.Sha256 = uint64(len(text)), sum[:]
	}
	follow := patient
	follow.Stdin = bytes.NewReader(text)
	return l.text(ctx, c, client.Command{ID: id, Spec: spec, Follow: follow}, "\n", lines)
}

// terminal is a command that prints on a terminal.
func (l *load) terminal(ctx context.Context, c *client.Client) error {
	id := l.ledger.ask()
	spec := script(id, slowly, strconv.Itoa(firstLine+l.slowLines))
	spec.Pty = &wirev1.Pty{Cols: 80, Rows: 24}
	return l.text(ctx, c, client.Command{ID: id, Spec: spec, Follow: patient}, "\r\n", l.slowLines)
}

// forget has the output of what ran before thrown away. Its result stays, and the same start, asked again,
// gets it.
func (l *load) forget(ctx context.Context, c *client.Client) error {
	var f finished
	select {
	case f = <-l.finished:
	case <-l.enough:
		return nil
	case <-ctx.Done():
		return nil
	}
	if err := l.drop(ctx, c, f.id); err != nil || ctx.Err() != nil {
		return err
	}
	var out, errs bytes.Buffer
	got, err := c.Run(ctx, client.Command{ID: f.id, Spec: f.spec, Follow: patient}, client.Writers(&out, &errs))
	if err == nil {
		err = f.checkForgotten(got, out.String(), errs.String())
	}
	if err != nil {
		return fmt.Errorf("start of the forgotten exec %s again: %w", f.id, err)
	}
	return nil
}

// drop asks to forget until an answer comes.
func (l *load) drop(ctx context.Context, c *client.Client, id string) error {
	for {
		_, err := c.RPC().Forget(ctx, connect.NewRequest(&wirev1.ForgetRequest{ExecId: id, Scope: machinetest.Scope}))
		if err == nil {
			return nil
		}
		if _, refused := wire.AsError(err); refused {
			return fmt.Errorf("forget exec %s: %w", id, err)
		}
		if !pause(ctx, whim()/4) {
			return nil
		}
	}
}

// checkForgotten: what was forgotten is gone, or all there until it is collected.
func (f finished) checkForgotten(got client.Result, out, errs string) error {
	if len(got.Gaps) == 0 {
		return f.check(got, out, errs)
	}
	for _, g := range got.Gaps {
		if g.GetReason() != wirev1.GapReason_GAP_REASON_COLLECTED {
			return fmt.Errorf("a gap %v", g)
		}
	}
	if out != "" || errs != "" {
		return fmt.Errorf("printed %q and %q", out, errs)
	}
	got.Gaps = nil
	return right(got, int32(f.n%100))
}

const takenOver = "s/taken-over"

// takeover gives a scope to a new owner, and has the old one, who does not know it yet, ask for a start.
// Nothing may come of that: its id is not in the ledger.
func (l *load) takeover(ctx context.Context, _ *client.Client) error {
	l.fence++
	for {
		_, err := l.owned.RPC().List(ctx, connect.NewRequest(&wirev1.ListRequest{Scope: takenOver, Fence: l.fence}))
		if err == nil {
			break
		}
		if _, refused := wire.AsError(err); refused {
			return fmt.Errorf("takeover with fence %d: %w", l.fence, err)
		}
		if !pause(ctx, whim()/4) {
			return nil
		}
	}
	id := newID()
	spec := script(id, "true")
	request := &wirev1.ExecRequest{
		ExecId: id, Scope: takenOver, Fence: l.fence - 1, Spec: spec, Digest: wire.Digest(takenOver, spec),
	}
	for {
		err := firstEvent(ctx, l.owned, request)
		switch {
		case reason(err) == wirev1.ErrorReason_ERROR_REASON_FENCED:
			pause(ctx, whim()/2)
			return nil
		case err == nil:
			return fmt.Errorf("a start with fence %d was taken after %d was seen", l.fence-1, l.fence)
		case reason(err) != wirev1.ErrorReason_ERROR_REASON_UNSPECIFIED:
			return fmt.Errorf("a start with fence %d: %w", l.fence-1, err)
		}
		if !pause(ctx, whim()/4) {
			return nil
		}
	}
}

// firstEvent asks for a start once; nil says that the machine took it.
func firstEvent(ctx context.Context, c *client.Client, request *wirev1.ExecRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := c.RPC().Exec(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	if events.Receive() {
		return nil
	}
	if events.Err() == nil {
		return io.ErrUnexpectedEOF
	}
	return events.Err()
}
