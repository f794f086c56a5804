package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// pipe is the stdin of a peer's exec.
type pipe struct {
	mu    sync.Mutex
	data  []byte
	calls int
	over  chan struct{} // closed at eof
	// step decides how a call goes, before anything is taken; nil takes everything.
	step func(p *pipe, r *wirev1.WriteStdinRequest) verdict
}

// verdict is what becomes of one call.
type verdict struct {
	most   int   // bytes taken; below 0 all
	closed bool  // the command reads no more
	err    error // answered after the bytes were taken
}

var takeAll = verdict{most: -1}

func newPipe(step func(*pipe, *wirev1.WriteStdinRequest) verdict) *pipe {
	return &pipe{over: make(chan struct{}), step: step}
}

func (p *pipe) write(r *wirev1.WriteStdinRequest) (*wirev1.WriteStdinResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	v := takeAll
	if p.step != nil {
		v = p.step(p, r)
	}
	have := uint64(len(p.data))
	if r.GetOffset() > have {
		return nil, wire.Invalid(&wire.FieldError{Field: "offset", Problem: "is beyond what was accepted"}).Connect()
	}
	fresh := r.GetData()[min(have-r.GetOffset(), uint64(len(r.GetData()))):]
	if v.most >= 0 {
		fresh = fresh[:min(v.most, len(fresh))]
	}
	p.data = append(p.data, fresh...)
	if r.GetEof() && uint64(len(p.data)) >= r.GetOffset()+uint64(len(r.GetData())) {
		select {
		case <-p.over:
		default:
			close(p.over)
		}
		v.closed = true
	}
	if v.err != nil {
		return nil, v.err
	}
	return &wirev1.WriteStdinResponse{AcceptedTo: uint64(len(p.data)), Closed: v.closed}, nil
}

func (p *peer) WriteStdin(_ context.Context, r *connect.Request[wirev1.WriteStdinRequest]) (*connect.Response[wirev1.WriteStdinResponse], error) {
	if p.stdin == nil {
		return nil, refusal(wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED)
	}
	answer, err := p.stdin.write(r.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(answer), nil
}

// untilEOF is a command that ends when its stdin does.
func untilEOF(p *pipe) func(context.Context, *stream) error {
	return func(ctx context.Context, s *stream) error {
		if err := s.Send(started()); err != nil {
			return err
		}
		select {
		case <-p.over:
		case <-ctx.Done():
			return ctx.Err()
		}
		return s.Send(exit(0, 0))
	}
}

func playStdin(t *testing.T, in *pipe, scenes ...func(context.Context, *stream) error) (*peer, *client.Client) {
	t.Helper()
	p, c := play(t, nil, scenes...)
	p.stdin = in
	return p, c
}

func piped(in io.Reader, f client.Follow) client.Command {
	c := command(f)
	c.Spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	c.Stdin = in
	return c
}

func random(n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(b)
	return b
}

// modal-labs/modal-client: stdin is safe to repeat only when it has offsets.
func TestStdinArrivesOnceHoweverOftenItsCallsBreak(t *testing.T) {
	content := random(3<<20 + 17)
	for name, step := range map[string]func(*pipe, *wirev1.WriteStdinRequest) verdict{
		"all goes well": nil,
		"every second answer is lost": func(p *pipe, _ *wirev1.WriteStdinRequest) verdict {
			if p.calls%2 == 1 {
				return verdict{most: -1, err: broken}
			}
			return takeAll
		},
		"a part is taken, and its answer lost": func(p *pipe, _ *wirev1.WriteStdinRequest) verdict {
			if p.calls%3 == 1 {
				return verdict{most: 100_001, err: broken}
			}
			return verdict{most: 300_003}
		},
		"the machine is full for a while": func(p *pipe, _ *wirev1.WriteStdinRequest) verdict {
			if p.calls%3 == 0 {
				return verdict{err: refusal(wirev1.ErrorReason_ERROR_REASON_TOO_MANY)}
			}
			return takeAll
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := newPipe(step)
			_, c := playStdin(t, in, untilEOF(in))
			r, err := c.Run(within(t), piped(iotest.HalfReader(bytes.NewReader(content)), client.Follow{}), client.Writers(nil, nil))
			if err != nil || r.Exit == nil || !bytes.Equal(in.data, content) {
				t.Fatalf("got %v, %d bytes of %d, equal %v", err, len(in.data), len(content), bytes.Equal(in.data, content))
			}
		})
	}
}

func TestStdinGoesOnWhereTheOutputIsAttachedAgain(t *testing.T) {
	content := random(1 << 20)
	in := newPipe(nil)
	p, c := playStdin(t, in, scene(broken, started()), scene(broken, started(), out(0, "a")), untilEOF(in))
	if r, err := c.Run(within(t), piped(bytes.NewReader(content), client.Follow{}), client.Writers(nil, nil)); err != nil || r.Exit == nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	if len(p.execs) != 1 || !bytes.Equal(in.data, content) {
		t.Fatalf("%d starts, %d bytes", len(p.execs), len(in.data))
	}
}

func TestStdinWaitsForTheProcess(t *testing.T) {
	in := newPipe(nil)
	tooEarly := false
	_, c := playStdin(t, in, func(ctx context.Context, s *stream) error {
		in.mu.Lock()
		tooEarly = in.calls > 0
		in.mu.Unlock()
		return untilEOF(in)(ctx, s)
	})
	if _, err := c.Run(within(t), piped(strings.NewReader("x"), client.Follow{}), client.Writers(nil, nil)); err != nil || tooEarly {
		t.Fatalf("got %v, too early %v", err, tooEarly)
	}
}

// A client that was killed starts again with the same id and the same source.
func TestStdinRepeatedByASecondClientIsIgnoredBelowWhatTheMachineHas(t *testing.T) {
	content := random(4 << 20)
	in := newPipe(nil)
	in.data = append(in.data, content[:2<<20+5]...)
	_, c := playStdin(t, in, untilEOF(in))
	if _, err := c.Run(within(t), piped(bytes.NewReader(content), client.Follow{}), client.Writers(nil, nil)); err != nil || !bytes.Equal(in.data, content) {
		t.Fatalf("got %v, %d bytes", err, len(in.data))
	}
}

func TestAttachSendsStdinFromWhereItEnds(t *testing.T) {
	in := newPipe(nil)
	in.data = []byte("first ")
	_, c := playStdin(t, in, untilEOF(in))
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(within(t), id, client.Follow{Stdin: strings.NewReader("second")}, client.Writers(nil, nil)); err != nil || string(in.data) != "first second" {
		t.Fatalf("got %v, %q", err, in.data)
	}
}

func TestStdinThatTheMachineLostIsAnErrorOfItsOwn(t *testing.T) {
	for name, step := range map[string]func(*pipe, *wirev1.WriteStdinRequest) verdict{
		"it says so": func(p *pipe, r *wirev1.WriteStdinRequest) verdict {
			if p.calls == 2 {
				p.data = p.data[:10]
			}
			return takeAll
		},
		"and once more when asked": func(p *pipe, r *wirev1.WriteStdinRequest) verdict {
			if p.calls >= 2 {
				p.data = p.data[:10]
			}
			return takeAll
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := newPipe(step)
			p, c := playStdin(t, in, untilEOF(in))
			_, err := c.Run(within(t), piped(bytes.NewReader(random(3<<20)), client.Follow{}), client.Writers(nil, nil))
			var lost *client.StdinLostError
			if !errors.As(err, &lost) || lost.Accepted != 10 || lost.Kept < 1<<10 || len(p.signals) != 0 {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestFailingSourceIsNoEndOfFile(t *testing.T) {
	mine := errors.New("my disk is broken")
	in := newPipe(nil)
	ended := make(chan struct{})
	p, c := playStdin(t, in)
	p.scenes = append(p.scenes, func(ctx context.Context, s *stream) error {
		defer close(ended)
		_ = s.Send(started())
		<-ctx.Done()
		return ctx.Err()
	})
	source := io.MultiReader(strings.NewReader("before"), iotest.ErrReader(mine))
	r, err := c.Run(within(t), piped(source, client.Follow{}), client.Writers(nil, nil))
	var own *client.SourceError
	if !errors.Is(err, mine) || !errors.As(err, &own) || r.Exit != nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	<-ended
	select {
	case <-in.over:
		t.Fatal("the command was told an end of file")
	default:
	}
	if string(in.data) != "before" {
		t.Fatalf("what was read before the failure did not arrive: %q", in.data)
	}
}

// endless counts what is taken from it.
type endless struct{ taken atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.taken.Add(int64(len(p)))
	return len(p), nil
}

func TestOutputFlowsAndMemoryIsBoundedWhileNobodyReadsStdin(t *testing.T) {
	in := newPipe(func(*pipe, *wirev1.WriteStdinRequest) verdict { return verdict{} })
	asked := make(chan struct{})
	var once sync.Once
	in.step = func(p *pipe, _ *wirev1.WriteStdinRequest) verdict {
		if p.calls == 5 {
			once.Do(func() { close(asked) })
		}
		return verdict{}
	}
	_, c := playStdin(t, in, func(ctx context.Context, s *stream) error {
		_ = s.Send(started())
		select {
		case <-asked:
		case <-ctx.Done():
		}
		return scene(nil, out(0, "abc"), exit(0, 3))(ctx, s)
	})
	source := &endless{}
	var b bytes.Buffer
	if _, err := c.Run(within(t), piped(source, client.Follow{}), client.Writers(&b, nil)); err != nil || b.String() != "abc" {
		t.Fatalf("got %v, %q", err, b.String())
	}
	if n := source.taken.Load(); n > 2*wire.MaxStdinChunk+256<<10 {
		t.Fatalf("%d bytes were read ahead of a machine that takes none", n)
	}
}

func TestCommandThatReadsNoMoreStopsTheSendingAndNothingElse(t *testing.T) {
	told := make(chan struct{})
	in := newPipe(func(*pipe, *wirev1.WriteStdinRequest) verdict {
		defer close(told) // a second call would panic
		return verdict{most: 3, closed: true}
	})
	_, c := playStdin(t, in, func(ctx context.Context, s *stream) error {
		_ = s.Send(started())
		select {
		case <-told:
		case <-ctx.Done():
		}
		return s.Send(exit(7, 0))
	})
	r, err := c.Run(within(t), piped(&endless{}, client.Follow{}), client.Writers(nil, nil))
	if err != nil || r.Exit.GetCode() != 7 || in.calls != 1 {
		t.Fatalf("got %+v, %v after %d calls", r, err, in.calls)
	}
}

func TestRefusedStdinEndsTheRunTyped(t *testing.T) {
	for _, reason := range []wirev1.ErrorReason{wirev1.ErrorReason_ERROR_REASON_FENCED, wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED} {
		in := newPipe(func(*pipe, *wirev1.WriteStdinRequest) verdict { return verdict{err: refusal(reason)} })
		_, c := playStdin(t, in, untilEOF(in))
		if _, err := c.Run(within(t), piped(strings.NewReader("x"), client.Follow{}), client.Writers(nil, nil)); wire.ReasonOf(err) != reason {
			t.Fatalf("%v: got %v", reason, err)
		}
	}
}

func TestStdinForACommandWithoutAPipeNeverLeaves(t *testing.T) {
	p, c := play(t, nil)
	run := command(client.Follow{Stdin: strings.NewReader("x")})
	if _, err := c.Run(within(t), run, client.Writers(nil, nil)); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID || len(p.execs) != 0 {
		t.Fatalf("got %v", err)
	}
}
