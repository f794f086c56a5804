//go:build linux

package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// The tests below run this server's connection and streams, and the real client, in a bubble whose clock
// jumps: what takes minutes or hours is over at once, and exact.

// cloudflare/sandbox-sdk#911, sandbox0-ai/sandbox0#263, diggerhq/opencomputer#382, hashicorp/nomad#8727:
// a command that printed nothing for 100 to 310 s lost its stream, and was taken for ended.
func TestMinutesOfSilenceEndNoStream(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		time.AfterFunc(310*time.Second, func() {
			l.print(t, "ok\n")
			l.exec.finish(&wirev1.Exit{StdoutEnd: 3})
		})
		begin := time.Now()
		got, text, err := l.run(t)
		if err != nil || text != "ok\n" || got.Exit == nil || time.Since(begin) != 310*time.Second {
			t.Fatalf("after %s: %q, %v, %v", time.Since(begin), text, got.Exit, err)
		}
		if starts, attachs := l.streams(); got.Reattached != 0 || starts != 1 || attachs != 0 || len(l.links) != 1 {
			t.Fatalf("%d starts, %d attachments, %d connections", starts, attachs, len(l.links))
		}
	})
}

// modal-labs/modal-client#4121, opensandbox-group/OpenSandbox#1306: a NAT forgot a connection after a
// minute without a packet, and the next call waited for minutes.
func TestIdleConnectionOutlivesANATsMemory(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.memory = time.Minute
		l.open(t)
		defer l.close()
		for range 3 {
			begin := time.Now()
			if _, err := l.client.Hello(t.Context()); err != nil || time.Since(begin) != 0 || len(l.links) != 1 {
				t.Fatalf("after %s on connection %d: %v", time.Since(begin), len(l.links), err)
			}
			time.Sleep(90 * time.Second)
		}
	})
}

// The same reports: a connection cut without a word is noticed by both ends' pings, and the client goes on
// on a new one where it stood.
func TestConnectionCutWithoutAWordIsNoticedByBothEnds(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		const noticed = 25 * time.Second // a ping after 15 s, 10 s for its answer
		time.AfterFunc(time.Second, func() { l.print(t, "before\n") })
		// In the middle between two beats.
		time.AfterFunc(7*time.Second, func() { l.links[0].cut() })
		time.AfterFunc(8*time.Second, func() { l.print(t, "meanwhile\n") })
		time.AfterFunc(8*time.Second+noticed, func() {
			if n := l.exec.attached.Load(); n != 1 || len(l.links) != 2 {
				t.Errorf("%d streams on %d connections: an end has not noticed", n, len(l.links))
			}
			l.exec.finish(&wirev1.Exit{StdoutEnd: 17})
		})
		got, text, err := l.run(t)
		if err != nil || got.Exit == nil || text != "before\nmeanwhile\n" || got.Reattached != 1 {
			t.Fatalf("%q, %v, attached again %d times, %v", text, got.Exit, got.Reattached, err)
		}
		if starts, attachs := l.streams(); starts != 1 || attachs != 1 || l.from[0].GetStdout() != 7 {
			t.Fatalf("%d starts, %d attachments, the first from %v", starts, attachs, l.from)
		}
	})
}

// modal-labs/modal-client#4128, langchain-ai/langsmith-sdk#3301: the retries of hours were counted together,
// and a re-attachment that brought no output did not count as success.
func TestTwentyOutagesInThreeHoursEndNothing(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		const outages, every = 20, 9 * time.Minute
		want := ""
		for i := range outages {
			time.AfterFunc(time.Duration(i+1)*every, func() {
				l.down(30 * time.Second) // noticed after 10 to 25 s, then dialled in vain
				if i%2 == 0 {
					l.print(t, "line\n")
				}
			})
			if i%2 == 0 {
				want += "line\n"
			}
		}
		time.AfterFunc((outages+1)*every, func() { l.exec.finish(&wirev1.Exit{StdoutEnd: uint64(len(want))}) })
		got, text, err := l.run(t)
		if err != nil || got.Exit == nil || text != want || got.Reattached < outages {
			t.Fatalf("%q, %v, attached again %d times, %v", text, got.Exit, got.Reattached, err)
		}
	})
}

// e2b-dev/infra#3292, e2b-dev/infra#3362: a subscriber that took nothing more was waited for until the
// kernel gave up on it, after a quarter of an hour.
func TestPeerThatTakesNothingIsCut(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { _, _ = l.client.Run(ctx, l.command(), client.Writers(nil, nil)) })
		synctest.Wait()
		l.links[0].deafen()
		l.print(t, "something\n")
		time.Sleep(40 * time.Second)
		// The client has come back on a new connection, and the machine knows that the old one is dead.
		if n := l.exec.attached.Load(); n != 1 || len(l.links) != 2 {
			t.Errorf("%d streams on %d connections", n, len(l.links))
		}
		cancel()
		ended.Wait()
	})
}

// e2b-dev/E2B#1590: a stream that its client had left lived on in the machine. It ends at once, not when the
// next beat finds nobody.
func TestAbandonedStreamEndsAtOnce(t *testing.T) {
	l := newLab(t)
	synctest.Test(t, func(t *testing.T) {
		l.open(t)
		defer l.close()
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() { _, _ = l.client.Run(ctx, l.command(), client.Writers(nil, nil)) })
		synctest.Wait()
		if n := l.exec.attached.Load(); n != 1 {
			t.Fatalf("%d streams are attached", n)
		}
		begin := time.Now()
		leave()
		left.Wait()
		synctest.Wait()
		if n := l.exec.attached.Load(); n != 0 || time.Since(begin) != 0 {
			t.Fatalf("after %s %d streams are attached", time.Since(begin), n)
		}
		if _, err := l.client.Hello(t.Context()); err != nil || len(l.links) != 1 {
			t.Fatalf("%v, %d connections", err, len(l.links))
		}
	})
}

// lab is a server with one exec and a client, over connections in memory. It is made outside the bubble,
// because files are.
type lab struct {
	wirev1connect.UnimplementedControlServiceHandler
	server   *Server
	exec     *exec
	client   *client.Client
	http     *http.Server
	listener *pipes
	served   chan struct{}
	memory   time.Duration // of the NAT between the ends; 0 is endless

	mu     sync.Mutex
	links  []*link
	barred time.Time // until when nothing can be dialled
	starts int
	from   []*wirev1.Offsets // of attachments
}

func newLab(t *testing.T) *lab {
	t.Helper()
	return &lab{exec: testExec(t)}
}

func (l *lab) open(t *testing.T) {
	t.Helper()
	l.server = &Server{fences: newFences(nil)}
	l.server.fences.of("s").loaded = true
	mux := http.NewServeMux()
	path, rpc := wirev1connect.NewControlServiceHandler(l)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		rpc.ServeHTTP(w, r.WithContext(withWriter(r.Context(), w)))
	})
	l.http = HTTP(mux, slog.New(slog.DiscardHandler))
	l.listener = &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.served = make(chan struct{})
	go func() {
		defer close(l.served)
		_ = l.http.Serve(l.listener)
	}()
	var err error
	l.client, err = client.New(client.Options{
		Address: "machine:1", Dial: l.dial, Scope: "s",
		Tokens: client.TokenFunc(func(context.Context) (string, error) { return "t", nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lab) close() {
	_ = l.http.Close()
	<-l.served
	l.client.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.links {
		k.end()
	}
}

func (l *lab) command() client.Command {
	return client.Command{Spec: &wirev1.ExecSpec{Argv: [][]byte{[]byte("x")}}}
}

func (l *lab) run(t *testing.T) (client.Result, string, error) {
	t.Helper()
	var b bytes.Buffer
	got, err := l.client.Run(t.Context(), l.command(), client.Writers(&b, nil))
	return got, b.String(), err
}

// print appends to the exec's stdout, as a pump does.
func (l *lab) print(t *testing.T, text string) {
	t.Helper()
	f, err := os.OpenFile(l.exec.out.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
	l.exec.grow(l.exec.out)(l.exec.out.end.Load() + uint64(len(text)))
}

// down cuts what there is, and lets nobody dial for a while.
func (l *lab) down(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barred = time.Now().Add(d)
	l.links[len(l.links)-1].cut()
}

func (l *lab) streams() (starts, attachs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts, len(l.from)
}

func (l *lab) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.barred) {
		return nil, errors.New("no route to the machine")
	}
	k := newLink(l.memory)
	select {
	case l.listener.accepted <- k.server:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.links = append(l.links, k)
	return k.client, nil
}

func (l *lab) Hello(context.Context, *connect.Request[wirev1.HelloRequest]) (*connect.Response[wirev1.HelloResponse], error) {
	return connect.NewResponse(&wirev1.HelloResponse{}), nil
}

func (l *lab) Exec(ctx context.Context, r *connect.Request[wirev1.ExecRequest], s *connect.ServerStream[wirev1.Event]) error {
	l.mu.Lock()
	l.starts++
	l.mu.Unlock()
	return l.stream(ctx, r.Msg.GetFrom(), s)
}

func (l *lab) Attach(ctx context.Context, r *connect.Request[wirev1.AttachRequest], s *connect.ServerStream[wirev1.Event]) error {
	l.mu.Lock()
	l.from = append(l.from, r.Msg.GetFrom())
	l.mu.Unlock()
	return l.stream(ctx, r.Msg.GetFrom(), s)
}

func (l *lab) stream(ctx context.Context, from *wirev1.Offsets, s *connect.ServerStream[wirev1.Event]) error {
	return l.server.stream(ctx, 0, &wirev1.Started{Pid: 1}, newSubscriber(l.exec, from, true, outletOf(ctx, s)))
}

// pipes is a listener whose connections are put into it.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// link is a connection through a NAT, which forgets it after some time without a packet. What it has
// forgotten arrives nowhere, and neither end is told: no FIN, no RST.
type link struct {
	client, server *half
	memory         time.Duration

	mu   sync.Mutex
	last time.Time
	gone bool
}

func newLink(memory time.Duration) *link {
	k := &link{memory: memory, last: time.Now()}
	a, b := net.Pipe()
	k.client = &half{Conn: a, link: k, deaf: make(chan struct{}), closed: make(chan struct{})}
	k.server = &half{Conn: b, link: k, deaf: make(chan struct{}), closed: make(chan struct{})}
	return k
}

// carries says whether a packet passes now.
func (k *link) carries() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.memory > 0 && time.Since(k.last) > k.memory {
		k.gone = true
	}
	k.last = time.Now()
	return !k.gone
}

func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone = true
}

// deafen lets the client take nothing more, so that the server's writes wait.
func (k *link) deafen() { close(k.client.deaf) }

func (k *link) end() {
	_ = k.client.Conn.Close()
	_ = k.server.Conn.Close()
}

// half is one end of a link.
type half struct {
	net.Conn
	link   *link
	deaf   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (h *half) Read(p []byte) (int, error) {
	select {
	case <-h.deaf:
		<-h.closed
		return 0, net.ErrClosed
	default:
	}
	return h.Conn.Read(p)
}

func (h *half) Write(p []byte) (int, error) {
	if !h.link.carries() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// Close tells the other end only while the link carries.
func (h *half) Close() error {
	h.once.Do(func() { close(h.closed) })
	if h.link.carries() {
		return h.Conn.Close()
	}
	return h.SetDeadline(time.Unix(1, 0))
}
