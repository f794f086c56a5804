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
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

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
