package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

type stream = connect.ServerStream[wirev1.Event]

// peer is a machine that plays one scene a stream.
type peer struct {
	wirev1connect.UnimplementedControlServiceHandler
	address string
	mu      sync.Mutex
	scenes  []func(context.Context, *stream) error
	execs   []*wirev1.ExecRequest
	attachs []*wirev1.AttachRequest
	signals []*wirev1.SignalRequest
	tokens  []string
	stdin   *pipe
}

func (p *peer) next(header http.Header) func(context.Context, *stream) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = append(p.tokens, header.Get("Authorization"))
	if len(p.scenes) == 0 {
		return func(context.Context, *stream) error {
			return connect.NewError(connect.CodeInternal, errors.New("one stream more than the scene has"))
		}
	}
	scene := p.scenes[0]
	p.scenes = p.scenes[1:]
	return scene
}

func (p *peer) Exec(ctx context.Context, r *connect.Request[wirev1.ExecRequest], s *stream) error {
	scene := p.next(r.Header())
	p.mu.Lock()
	p.execs = append(p.execs, r.Msg)
	p.mu.Unlock()
	return scene(ctx, s)
}

func (p *peer) Attach(ctx context.Context, r *connect.Request[wirev1.AttachRequest], s *stream) error {
	scene := p.next(r.Header())
	p.mu.Lock()
	p.attachs = append(p.attachs, r.Msg)
	p.mu.Unlock()
	return scene(ctx, s)
}

func (p *peer) Signal(_ context.Context, r *connect.Request[wirev1.SignalRequest]) (*connect.Response[wirev1.SignalResponse], error) {
	p.mu.Lock()
	p.signals = append(p.signals, r.Msg)
	p.mu.Unlock()
	return connect.NewResponse(&wirev1.SignalResponse{Delivered: true}), nil
}

// play starts a peer and a client of it.
func play(t *testing.T, tokens client.TokenSource, scenes ...func(context.Context, *stream) error) (*peer, *client.Client) {
	t.Helper()
	p := &peer{scenes: scenes}
	mux := http.NewServeMux()
	mux.Handle(wirev1connect.NewControlServiceHandler(p))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	if tokens == nil {
		tokens = client.TokenFunc(func(context.Context) (string, error) { return "t", nil })
	}
	p.address = server.Listener.Addr().String()
	c, err := client.New(client.Options{Address: p.address, Tokens: tokens, Scope: "s/one", Fence: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return p, c
}

// scene sends events and ends with an error, or without one.
func scene(end error, events ...*wirev1.Event) func(context.Context, *stream) error {
	return func(_ context.Context, s *stream) error {
		for _, e := range events {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return end
	}
}

func started() *wirev1.Event {
	return &wirev1.Event{Event: &wirev1.Event_Started{Started: &wirev1.Started{Pid: 1, Epoch: "e"}}}
}

func out(offset uint64, data string) *wirev1.Event {
	return &wirev1.Event{Event: &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: wirev1.Stream_STREAM_STDOUT, Offset: offset, Data: []byte(data)}}}
}

func gap(from, to uint64) *wirev1.Event {
	return &wirev1.Event{Event: &wirev1.Event_Gap{Gap: &wirev1.Gap{Stream: wirev1.Stream_STREAM_STDOUT, From: from, To: to, Reason: wirev1.GapReason_GAP_REASON_CAP}}}
}

func exit(code int32, end uint64) *wirev1.Event {
	return &wirev1.Event{Event: &wirev1.Event_Exit{Exit: &wirev1.Exit{Code: code, StdoutEnd: end}}}
}

var broken = connect.NewError(connect.CodeUnavailable, errors.New("cut"))

func refusal(reason wirev1.ErrorReason) error { return wire.Refuse(reason, "refused").Connect() }

func command(f client.Follow) client.Command {
	return client.Command{Spec: &wirev1.ExecSpec{Argv: [][]byte{[]byte("x")}}, Follow: f}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func run(t *testing.T, c *client.Client, f client.Follow) (client.Result, string, error) {
	t.Helper()
	var b bytes.Buffer
	r, err := c.Run(within(t), command(f), client.Writers(&b, nil))
	return r, b.String(), err
}

// cloudflare/sandbox-sdk#873, chaitin/agent-compose#364: the end of a stream was read as success.
func TestEndOfAStreamIsNeverSuccess(t *testing.T) {
	p, c := play(t, nil,
		scene(nil, started(), out(0, "abc")),
		scene(nil),
		scene(broken),
		scene(nil, started(), out(3, "def"), exit(5, 6)))
	r, text, err := run(t, c, client.Follow{})
	if err != nil || text != "abcdef" || r.Exit.GetCode() != 5 || r.Reattached != 3 {
		t.Fatalf("got %+v, %q, %v", r, text, err)
	}
	if len(p.execs) != 1 || len(p.attachs) != 3 || p.attachs[2].GetFrom().GetStdout() != 3 || p.attachs[2].GetFence() != 3 {
		t.Fatalf("got %d starts, %v", len(p.execs), p.attachs)
	}
}

func TestStartIsRepeatedUntilTheMachineSaysItStarted(t *testing.T) {
	p, c := play(t, nil, scene(broken), scene(broken), scene(nil, started(), exit(0, 0)))
	r, _, err := run(t, c, client.Follow{})
	if err != nil || r.Exit == nil || len(p.execs) != 3 || len(p.attachs) != 0 {
		t.Fatalf("got %+v, %v, %d starts", r, err, len(p.execs))
	}
	for _, e := range p.execs {
		if e.GetExecId() != p.execs[0].GetExecId() || !bytes.Equal(e.GetDigest(), wire.Digest("s/one", e.GetSpec())) {
			t.Fatal("a repeated start is another exec")
		}
	}
}

// langchain-ai/langsmith-sdk#3022: after a reconnect records came twice, or not at all.
func TestRepeatedBytesAreHandedOverOnce(t *testing.T) {
	_, c := play(t, nil,
		scene(broken, started(), out(0, "abc"), out(1, "bcd"), out(0, "ab")),
		scene(nil, started(), out(2, "cdef"), out(6, "g"), exit(0, 7)))
	if r, text, err := run(t, c, client.Follow{}); err != nil || text != "abcdefg" || r.Offsets.GetStdout() != 7 {
		t.Fatalf("got %+v, %q, %v", r, text, err)
	}
}

func TestMissingBytesAreFetchedAgain(t *testing.T) {
	p, c := play(t, nil,
		scene(nil, started(), out(0, "abc"), out(5, "fgh"), exit(0, 8)),
		scene(nil, started(), exit(0, 8)),
		scene(nil, started(), out(3, "defgh"), exit(0, 8)))
	_, text, err := run(t, c, client.Follow{})
	if err != nil || text != "abcdefgh" || p.attachs[0].GetFrom().GetStdout() != 3 || p.attachs[1].GetFrom().GetStdout() != 3 {
		t.Fatalf("got %q, %v, %v", text, err, p.attachs)
	}
}

func TestMachineThatLeavesBytesOutIsAnErrorNotALoop(t *testing.T) {
	hole := scene(nil, started(), out(0, "abc"), exit(0, 8))
	_, c := play(t, nil, hole, hole, hole, hole, hole, hole)
	r, _, err := run(t, c, client.Follow{})
	if err == nil || !strings.Contains(err.Error(), "stdout jumped from offset 3 to 8") || r.Exit != nil {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestGapsCountAsHadAndAreReported(t *testing.T) {
	_, c := play(t, nil, scene(nil, started(), gap(0, 4), out(4, "ef"), exit(0, 6)))
	r, text, err := run(t, c, client.Follow{})
	if err != nil || text != "ef" || len(r.Gaps) != 1 || r.Gaps[0].GetTo() != 4 {
		t.Fatalf("got %+v, %q, %v", r, text, err)
	}
}

func TestLostIsAnEndOfItsOwn(t *testing.T) {
	_, c := play(t, nil, scene(nil, &wirev1.Event{Event: &wirev1.Event_Lost{Lost: &wirev1.Lost{Reason: wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED}}}))
	r, _, err := run(t, c, client.Follow{})
	if err != nil || r.Exit != nil || r.Lost.GetReason() != wirev1.LostReason_LOST_REASON_MACHINE_RESTARTED {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestUnknownEventsAndStreamsAreSkipped(t *testing.T) {
	odd := &wirev1.Event{Event: &wirev1.Event_Chunk{Chunk: &wirev1.Chunk{Stream: 9, Offset: 100, Data: []byte("?")}}}
	_, c := play(t, nil, scene(nil, started(), &wirev1.Event{}, odd, out(0, "a"), exit(0, 1)))
	if _, text, err := run(t, c, client.Follow{}); err != nil || text != "a" {
		t.Fatalf("got %q, %v", text, err)
	}
}

func TestRetryableRefusalIsWaitedForOnlyAsAsked(t *testing.T) {
	for _, reason := range []wirev1.ErrorReason{wirev1.ErrorReason_ERROR_REASON_QUIESCED, wirev1.ErrorReason_ERROR_REASON_STOPPING} {
		_, c := play(t, nil, scene(refusal(reason)))
		if _, _, err := run(t, c, client.Follow{}); wire.ReasonOf(err) != reason {
			t.Fatalf("without a wait: %v", err)
		}
		_, c = play(t, nil, scene(refusal(reason)), scene(refusal(reason)), scene(nil, started(), exit(0, 0)))
		if r, _, err := run(t, c, client.Follow{Wait: 20 * time.Second}); err != nil || r.Exit == nil {
			t.Fatalf("with a wait: %v", err)
		}
		var many []func(context.Context, *stream) error
		for range 50 {
			many = append(many, scene(refusal(reason)))
		}
		_, c = play(t, nil, many...)
		if _, _, err := run(t, c, client.Follow{Wait: 300 * time.Millisecond}); wire.ReasonOf(err) != reason {
			t.Fatalf("at the end of the wait: %v", err)
		}
	}
}

func TestFinalRefusalComesBackTypedAtOnce(t *testing.T) {
	for _, reason := range []wirev1.ErrorReason{
		wirev1.ErrorReason_ERROR_REASON_CONFLICT, wirev1.ErrorReason_ERROR_REASON_FENCED, wirev1.ErrorReason_ERROR_REASON_SUPERSEDED,
		wirev1.ErrorReason_ERROR_REASON_EXPIRED, wirev1.ErrorReason_ERROR_REASON_SCOPE, wirev1.ErrorReason_ERROR_REASON_TOKEN,
	} {
		p, c := play(t, nil, scene(refusal(reason)))
		if _, _, err := run(t, c, client.Follow{Wait: time.Minute}); wire.ReasonOf(err) != reason || len(p.execs) != 1 {
			t.Fatalf("%v: got %v after %d starts", reason, err, len(p.execs))
		}
	}
}

// modal-labs/modal-client#4128, langchain-ai/langsmith-sdk#3301: the budget of retries ran out although every stream made progress.
func TestProgressResetsThePatience(t *testing.T) {
	var scenes []func(context.Context, *stream) error
	slow := func(i uint64) func(context.Context, *stream) error {
		return func(ctx context.Context, s *stream) error {
			timer := time.NewTimer(80 * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			return scene(broken, started(), out(i, "x"))(ctx, s)
		}
	}
	for i := range 12 {
		scenes = append(scenes, slow(uint64(i)))
	}
	scenes = append(scenes, scene(nil, started(), exit(0, 12)))
	_, c := play(t, nil, scenes...)
	if r, text, err := run(t, c, client.Follow{Patience: 500 * time.Millisecond}); err != nil || len(text) != 12 || r.Reattached != 12 {
		t.Fatalf("got %+v, %q, %v", r, text, err)
	}
}

func TestPatienceEnds(t *testing.T) {
	var scenes []func(context.Context, *stream) error
	for range 100 {
		scenes = append(scenes, scene(broken))
	}
	_, c := play(t, nil, scenes...)
	r, _, err := run(t, c, client.Follow{Patience: 300 * time.Millisecond})
	if !errors.Is(err, client.ErrGaveUp) || r.ID == "" || !strings.Contains(err.Error(), "cut") {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestPeerThatIsNoControlServerIsToldAtOnce(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{
		Address: server.Listener.Addr().String(), Scope: "s",
		Tokens: client.TokenFunc(func(context.Context) (string, error) { return "t", nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, _, err := run(t, c, client.Follow{Patience: time.Minute}); err == nil || errors.Is(err, client.ErrGaveUp) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestTokensAreRenewedUnseen(t *testing.T) {
	tokens := &counting{}
	_, strict := play(t, tokens,
		scene(refusal(wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL), started(), out(0, "a")),
		scene(refusal(wirev1.ErrorReason_ERROR_REASON_TOKEN)),
		scene(nil, started(), out(1, "b"), exit(0, 2)))
	if _, text, err := run(t, strict, client.Follow{}); err == nil {
		t.Fatalf("two refusals in a row were retried: %q", text)
	}
	p, c := play(t, tokens,
		scene(refusal(wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL), started(), out(0, "a")),
		scene(broken, started()),
		scene(refusal(wirev1.ErrorReason_ERROR_REASON_TOKEN)),
		scene(nil, started(), out(1, "b"), exit(0, 2)))
	if _, text, err := run(t, c, client.Follow{}); err != nil || text != "ab" {
		t.Fatalf("got %q, %v", text, err)
	}
	if p.tokens[0] == p.tokens[1] || p.tokens[1] != p.tokens[2] || p.tokens[2] == p.tokens[3] {
		t.Fatalf("got %v", p.tokens)
	}
}

// counting gives the same token until it is told to renew.
type counting struct {
	mu sync.Mutex
	n  int
}

func (c *counting) Token(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint("t", c.n), nil
}

func (c *counting) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func TestFailureOfTheTokenSourceIsNotRetried(t *testing.T) {
	mine := errors.New("vault is sealed")
	p, c := play(t, client.TokenFunc(func(context.Context) (string, error) { return "", mine }))
	if _, _, err := run(t, c, client.Follow{Patience: time.Minute, Wait: time.Minute}); !errors.Is(err, mine) || len(p.execs) != 0 {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Hello(within(t)); !errors.Is(err, mine) {
		t.Fatalf("hello: got %v", err)
	}
}

func TestSignedTokensAreReusedAndRenewed(t *testing.T) {
	root, err := token.NewRoot("acme")
	if err != nil {
		t.Fatal(err)
	}
	key, err := root.Delegate("rt-x", []string{"*"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	source := client.SignWith(key, "a", "m", "s", "s/one")
	first, err1 := source.Token(within(t))
	again, err2 := source.Token(within(t))
	if err1 != nil || err2 != nil || first != again {
		t.Fatalf("got %v, %v, equal %v", err1, err2, first == again)
	}
	trust, err := token.ParseTrust(root.Trust())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Verify(first, "a", "m", time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestErrorOfTheSinkEndsTheRunAndNothingElse(t *testing.T) {
	mine := errors.New("disk full here")
	p, c := play(t, nil, func(ctx context.Context, s *stream) error {
		_ = scene(nil, started(), out(0, "abc"))(ctx, s)
		<-ctx.Done()
		return ctx.Err()
	})
	_, err := c.Run(within(t), command(client.Follow{}), client.Writers(failing{mine}, nil))
	if !errors.Is(err, mine) || len(p.signals) != 0 {
		t.Fatalf("got %v, %v", err, p.signals)
	}
}

func TestCommandThatNobodyReadsIsToldToEnd(t *testing.T) {
	mine := errors.New("broken pipe")
	p, c := play(t, nil, func(ctx context.Context, s *stream) error {
		_ = scene(nil, started(), out(0, "abc"))(ctx, s)
		<-ctx.Done()
		return ctx.Err()
	})
	_, err := c.Run(within(t), command(client.Follow{TermOnCancel: true, CancelSignal: 1}), client.Writers(failing{mine}, nil))
	if !errors.Is(err, mine) || len(p.signals) != 1 || p.signals[0].GetSignal() != 1 {
		t.Fatalf("got %v, %v", err, p.signals)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestCancelWithTermFollowsToTheEnd(t *testing.T) {
	running := make(chan struct{})
	p, c := play(t, nil)
	p.scenes = append(p.scenes, func(ctx context.Context, s *stream) error {
		_ = s.Send(started())
		close(running)
		for {
			p.mu.Lock()
			signalled := len(p.signals) > 0
			p.mu.Unlock()
			if signalled {
				return scene(nil, out(0, "bye"), exit(143, 3))(ctx, s)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	ctx, cancel := context.WithCancel(within(t))
	go func() { <-running; cancel() }()
	var b bytes.Buffer
	r, err := c.Run(ctx, command(client.Follow{TermOnCancel: true}), client.Writers(&b, nil))
	if err != nil || r.Exit.GetCode() != 143 || b.String() != "bye" || p.signals[0].GetSignal() != 15 {
		t.Fatalf("got %+v, %q, %v", r, b.String(), err)
	}
}

func TestCancelWithoutTermLeavesTheCommandAlone(t *testing.T) {
	p, c := play(t, nil, func(ctx context.Context, s *stream) error {
		_ = s.Send(started())
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(within(t))
	mine := errors.New("the user left")
	r, err := c.Run(ctx, command(client.Follow{}), onStarted{client.Writers(nil, nil), func() { cancel(mine) }})
	if !errors.Is(err, mine) || len(p.signals) != 0 || r.Started == nil || r.ID == "" {
		t.Fatalf("got %+v, %v, %v", r, err, p.signals)
	}
}

func TestWrongCommandNeverLeaves(t *testing.T) {
	p, c := play(t, nil)
	_, err := c.Run(within(t), client.Command{Spec: &wirev1.ExecSpec{}}, client.Writers(nil, nil))
	if refused, ok := wire.AsError(err); !ok || refused.Field != "spec.argv" || len(p.execs) != 0 {
		t.Fatalf("got %v", err)
	}
}

type onStarted struct {
	client.Sink
	do func()
}

func (o onStarted) Started(*wirev1.Started) error { o.do(); return nil }

// net/http dials once a request while no connection is up; a hundred machines' worth of connections to one
// machine would then carry one stream each.
func TestManyCallsAtOnceShareOneConnectionFromTheFirst(t *testing.T) {
	const many = 100
	ready := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(many)
	var scenes []func(context.Context, *stream) error
	for range many {
		scenes = append(scenes, func(ctx context.Context, s *stream) error {
			arrived.Done()
			select {
			case <-ready:
			case <-ctx.Done():
			}
			return scene(nil, started(), exit(0, 0))(ctx, s)
		})
	}
	p, _ := play(t, nil, scenes...)
	dialed := 0
	c, err := client.New(client.Options{
		Address: p.address, Scope: "s/one",
		Tokens: client.TokenFunc(func(context.Context) (string, error) { return "t", nil }),
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed++ // a second dial at once would also be a data race
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var wait sync.WaitGroup
	for range many {
		wait.Go(func() {
			if _, err := c.Run(within(t), command(client.Follow{}), client.Writers(nil, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	arrived.Wait()
	close(ready)
	wait.Wait()
	if dialed != 1 {
		t.Errorf("%d connections were opened", dialed)
	}
}
