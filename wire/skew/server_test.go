package skew_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Reasons of version 1 that a peer server gives.
const (
	reasonInvalid  = 1
	reasonUnknown  = 4
	reasonConflict = 5
)

// peerServer is a control server that knows the wire from a schema alone. It runs real commands, and
// keeps their output in memory; what a keeper does for today's, its process does.
type peerServer struct {
	schema *schema
	// later makes it the future's: adorned messages, new events, new values, a new reason to wait.
	later bool

	mu       sync.Mutex
	execs    map[string]*peerExec
	asked    map[string]int // streams by exec and place
	refused  bool
	address  string
	conns    map[net.Conn]bool
	starts   int
	finished sync.WaitGroup
}

type peerExec struct {
	scope, digest string
	cmd           *exec.Cmd
	changed       *sync.Cond
	out           [2][]byte
	stdin         *peerStdin
	over          bool
	code, signal  int32
}

func newPeerServer(t *testing.T, s *schema, later bool) *peerServer {
	t.Helper()
	p := &peerServer{schema: s, later: later, execs: map[string]*peerExec{}, asked: map[string]int{}, conns: map[net.Conn]bool{}}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = listener.Addr().String()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: p.handler(), Protocols: protocols, ReadHeaderTimeout: time.Minute, ConnState: p.connState}
	p.finished.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		p.mu.Lock()
		for _, e := range p.execs {
			_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
		}
		p.mu.Unlock()
		p.finished.Wait()
	})
	return p
}

func (p *peerServer) connState(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == http.StateClosed {
		delete(p.conns, c)
	} else {
		p.conns[c] = true
	}
}

// kill cuts every connection, as the death of a server does. The execs live on, and so does the port: given back, it could be
// another connection's before the next server has it.
func (p *peerServer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *peerServer) handler() http.Handler {
	mux := http.NewServeMux()
	methods := p.schema.service.Methods()
	for i := range methods.Len() {
		d := methods.Get(i)
		path := "/" + string(p.schema.service.FullName()) + "/" + string(d.Name())
		options := []connect.HandlerOption{
			connect.WithSchema(d), connect.WithCompression("gzip", nil, nil),
			connect.WithRequestInitializer(func(_ connect.Spec, message any) error {
				if m, ok := message.(*dynamicpb.Message); ok {
					*m = *dynamicpb.NewMessage(d.Input())
				}
				return nil
			}),
		}
		if d.IsStreamingServer() {
			mux.Handle(path, connect.NewServerStreamHandler(path, func(ctx context.Context, r *connect.Request[dynamicpb.Message], s *connect.ServerStream[dynamicpb.Message]) error {
				return p.follow(ctx, r.Msg.ProtoReflect(), func(m *dynamicpb.Message) error { return s.Send(p.sent(m)) })
			}, options...))
			continue
		}
		mux.Handle(path, connect.NewUnaryHandler(path, func(_ context.Context, r *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
			answer, err := p.answer(string(d.Name()), r.Msg.ProtoReflect())
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(p.sent(answer)), nil
		}, options...))
	}
	return mux
}

func (p *peerServer) sent(m *dynamicpb.Message) *dynamicpb.Message {
	if p.later {
		p.schema.adorn(m.ProtoReflect())
	}
	return m
}

func (p *peerServer) refuse(code connect.Code, reason protoreflect.EnumNumber, retryable bool, text string) error {
	err := connect.NewError(code, errors.New(text))
	detail, failed := connect.NewErrorDetail(p.sent(p.schema.message("ErrorDetail", fields{"reason": reason, "retryable": retryable})))
	if failed == nil {
		err.AddDetail(detail)
	}
	return err
}

func (p *peerServer) answer(method string, r protoreflect.Message) (*dynamicpb.Message, error) {
	switch method {
	case "Hello":
		return p.schema.message("HelloResponse", fields{
			"wire_version": uint32(1), "wire_min": uint32(1), "wire_max": uint32(1), "build": "peer",
			"features": []string{"exec", "attach", "stdin_pipe", "signal", "teleport"}, "epoch": "peer",
		}), nil
	case "WriteStdin":
		e, err := p.known(r)
		if err != nil {
			return nil, err
		}
		accepted, ok := e.stdin.write(get(r, "offset").Uint(), get(r, "data").Bytes(), get(r, "eof").Bool())
		if !ok {
			return nil, p.refuse(connect.CodeInvalidArgument, reasonInvalid, false, "offset is beyond what was accepted")
		}
		return p.schema.message("WriteStdinResponse", fields{"accepted_to": accepted, "closed": get(r, "eof").Bool()}), nil
	case "Signal":
		e, err := p.known(r)
		if err != nil {
			return nil, err
		}
		err = syscall.Kill(-e.cmd.Process.Pid, syscall.Signal(get(r, "signal").Int()))
		return p.schema.message("SignalResponse", fields{"delivered": err == nil}), nil
	}
	return nil, p.refuse(connect.CodeUnimplemented, 18, false, method+" is not served")
}

func (p *peerServer) known(r protoreflect.Message) (*peerExec, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.execs[get(r, "exec_id").String()]
	if e == nil || e.scope != get(r, "scope").String() {
		return nil, p.refuse(connect.CodeNotFound, reasonUnknown, false, "no such exec")
	}
	return e, nil
}

func (p *peerServer) follow(ctx context.Context, r protoreflect.Message, send func(*dynamicpb.Message) error) error {
	e, err := p.known(r)
	if r.Descriptor().Name() == "ExecRequest" {
		e, err = p.obtain(r)
	}
	if err == nil {
		err = p.patience(r)
	}
	if err != nil {
		return err
	}
	if err := send(p.schema.event("started", "Started", fields{"pid": int64(e.cmd.Process.Pid), "epoch": "peer"})); err != nil {
		return err
	}
	return p.stream(ctx, e, get(r, "from").Message(), send)
}

// mostAsked is how often an exec may be asked for from the same place. A kill costs one stream or two; a
// client that asks on and on does not take what it is sent, and is told so instead of being served for ever.
const mostAsked = 10

func (p *peerServer) patience(r protoreflect.Message) error {
	from := get(r, "from").Message()
	place := fmt.Sprintf("%s from %d/%d", get(r, "exec_id"), get(from, "stdout").Uint(), get(from, "stderr").Uint())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[place]++; p.asked[place] > mostAsked {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the client asked for exec %s %d times: it does not take what this server sends", place, mostAsked))
	}
	return nil
}

// obtain starts a command, or finds the one that has its id and digest.
func (p *peerServer) obtain(r protoreflect.Message) (*peerExec, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.later && !p.refused {
		p.refused = true
		return nil, p.refuse(connect.CodeUnavailable, newValue, true, "the stars are not right: a reason of a later version")
	}
	id, scope, spec := get(r, "exec_id").String(), get(r, "scope").String(), get(r, "spec").Message()
	sum := digest(scope, spec)
	if !bytes.Equal(sum, get(r, "digest").Bytes()) {
		return nil, p.refuse(connect.CodeInvalidArgument, reasonInvalid, false, "digest is not that of scope and spec")
	}
	if e := p.execs[id]; e != nil {
		if e.scope != scope || e.digest != string(sum) {
			return nil, p.refuse(connect.CodeFailedPrecondition, reasonConflict, false, "id is taken")
		}
		return e, nil
	}
	e := &peerExec{scope: scope, digest: string(sum), changed: sync.NewCond(new(sync.Mutex))}
	argv := get(spec, "argv").List()
	e.cmd = exec.CommandContext(context.Background(), string(argv.Get(0).Bytes()))
	for i := 1; i < argv.Len(); i++ {
		e.cmd.Args = append(e.cmd.Args, string(argv.Get(i).Bytes()))
	}
	e.cmd.Stdout, e.cmd.Stderr = &peerOutput{e, 0}, &peerOutput{e, 1}
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if get(spec, "stdin", "mode").Enum() == stdinPipe {
		w, err := e.cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		e.stdin = &peerStdin{to: w}
	}
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	p.execs[id] = e
	p.starts++
	p.finished.Go(e.wait)
	return e, nil
}

func (e *peerExec) wait() {
	_ = e.cmd.Wait()
	e.changed.L.Lock()
	defer e.changed.L.Unlock()
	e.over = true
	if status, ok := e.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = int32(status.Signal())
	} else {
		e.code = int32(e.cmd.ProcessState.ExitCode())
	}
	e.changed.Broadcast()
}

type peerOutput struct {
	exec *peerExec
	at   int
}

func (o *peerOutput) Write(b []byte) (int, error) {
	o.exec.changed.L.Lock()
	defer o.exec.changed.L.Unlock()
	o.exec.out[o.at] = append(o.exec.out[o.at], b...)
	o.exec.changed.Broadcast()
	return len(b), nil
}

// stream sends what there is from the offsets on, until the end.
func (p *peerServer) stream(ctx context.Context, e *peerExec, from protoreflect.Message, send func(*dynamicpb.Message) error) error {
	at := [2]uint64{get(from, "stdout").Uint(), get(from, "stderr").Uint()}
	stop := context.AfterFunc(ctx, func() {
		e.changed.L.Lock()
		defer e.changed.L.Unlock()
		e.changed.Broadcast()
	})
	defer stop()
	for {
		e.changed.L.Lock()
		for !e.over && ctx.Err() == nil && at[0] >= uint64(len(e.out[0])) && at[1] >= uint64(len(e.out[1])) {
			e.changed.Wait()
		}
		out, over, code, signal := e.out, e.over, e.code, e.signal
		e.changed.L.Unlock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i := range out {
			for at[i] < uint64(len(out[i])) {
				data := out[i][at[i]:min(at[i]+64<<10, uint64(len(out[i])))]
				if err := p.novelties(send); err != nil {
					return err
				}
				if err := send(p.schema.event("chunk", "Chunk", fields{"stream": protoreflect.EnumNumber(i + 1), "offset": at[i], "data": data})); err != nil {
					return err
				}
				at[i] += uint64(len(data))
			}
		}
		if over {
			cause := protoreflect.EnumNumber(1)
			if p.later {
				cause = newValue
			}
			return send(p.schema.event("exit", "Exit", fields{
				"code": code, "signal": signal, "cause": cause, "stdout_end": uint64(len(out[0])), "stderr_end": uint64(len(out[1])),
			}))
		}
	}
}

// novelties sends what only a later version does.
func (p *peerServer) novelties(send func(*dynamicpb.Message) error) error {
	if !p.later {
		return nil
	}
	for _, e := range []*dynamicpb.Message{
		p.schema.event("hologram", "Rusage", fields{"user_us": int64(1)}),
		p.schema.event("chunk", "Chunk", fields{"stream": protoreflect.EnumNumber(newValue), "offset": uint64(1 << 40), "data": []byte("?")}),
		p.schema.event("gap", "Gap", fields{"stream": protoreflect.EnumNumber(newValue), "from": uint64(5), "to": uint64(9), "reason": protoreflect.EnumNumber(newValue)}),
		p.schema.event("beat", "Beat", fields{"state": protoreflect.EnumNumber(newValue)}),
	} {
		if err := send(e); err != nil {
			return err
		}
	}
	return nil
}

// peerStdin takes stdin by offset.
type peerStdin struct {
	mu       sync.Mutex
	to       io.WriteCloser
	accepted uint64
}

// write returns how far stdin is accepted; false says that the offset is beyond that.
func (s *peerStdin) write(offset uint64, data []byte, eof bool) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset > s.accepted {
		return s.accepted, false
	}
	if end := offset + uint64(len(data)); end > s.accepted {
		_, _ = s.to.Write(data[s.accepted-offset:])
		s.accepted = end
	}
	if eof {
		_ = s.to.Close()
	}
	return s.accepted, true
}
