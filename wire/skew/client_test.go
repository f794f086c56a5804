package skew_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// peerClient is a client that knows the wire from a schema alone.
type peerClient struct {
	schema  *schema
	address string
	scope   string
	token   func() string
	http    *http.Client
	// later is told each message before it goes out; nil in a frozen client.
	later func(protoreflect.Message)
}

func newPeerClient(t *testing.T, s *schema, address, scope string, token func() string) *peerClient {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &peerClient{schema: s, address: address, scope: scope, token: token, http: &http.Client{Transport: transport}}
}

// method is one call of the service, in gRPC's framing.
func (c *peerClient) method(name string) *connect.Client[dynamicpb.Message, dynamicpb.Message] {
	d := c.schema.service.Methods().ByName(protoreflect.Name(name))
	return connect.NewClient[dynamicpb.Message, dynamicpb.Message](
		c.http, fmt.Sprintf("http://%s/%s/%s", c.address, c.schema.service.FullName(), name),
		connect.WithGRPC(), connect.WithSchema(d),
		connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
			if m, ok := message.(*dynamicpb.Message); ok {
				*m = *dynamicpb.NewMessage(d.Output())
			}
			return nil
		}),
	)
}

func (c *peerClient) request(m *dynamicpb.Message) *connect.Request[dynamicpb.Message] {
	if c.later != nil {
		c.later(m.ProtoReflect())
	}
	r := connect.NewRequest(m)
	r.Header().Set("Authorization", "Bearer "+c.token())
	return r
}

func (c *peerClient) call(ctx context.Context, method, request string, values fields) (protoreflect.Message, error) {
	answer, err := c.method(method).CallUnary(ctx, c.request(c.schema.message(request, values)))
	if err != nil {
		return nil, err
	}
	return answer.Msg.ProtoReflect(), nil
}

// follower is what version 1 keeps of an exec that it follows.
type follower struct {
	client   *peerClient
	job      job
	out      outcome
	known    bool // the machine said Started
	events   int  // of the present stream
	accepted uint64
}

// run starts a job, or attaches to it, and follows it to its end over broken streams, as version 1 says:
// the same start until the machine said Started, then Attach from where the bytes end.
func (c *peerClient) run(ctx context.Context, j job) (outcome, error) {
	f := &follower{client: c, job: j}
	for idle := 0; ; {
		had := len(f.out.stdout) + len(f.out.stderr)
		f.events = 0
		ended, err := f.stream(ctx)
		switch {
		case ended:
			return f.out, err
		case ctx.Err() != nil:
			return f.out, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case len(f.out.stdout)+len(f.out.stderr) > had:
			idle = 0
		case f.events > 0:
			idle++
		}
		if idle >= mostAsked {
			return f.out, fmt.Errorf("%d streams in a row brought neither a byte nor an end: %w", idle, err)
		}
		if code := connect.CodeOf(err); err != nil && code != connect.CodeUnavailable && code != connect.CodeUnknown && code != connect.CodeInternal && code != connect.CodeCanceled {
			return f.out, err
		}
		f.out.reattached++
		select {
		case <-ctx.Done():
			return f.out, context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *peerClient) spec(j job) *dynamicpb.Message {
	argv := [][]byte{[]byte("sh"), []byte("-c"), []byte(j.script)}
	values := fields{"argv": argv}
	if j.stdin != nil {
		values["stdin"] = c.schema.message("Stdin", fields{"mode": protoreflect.EnumNumber(stdinPipe)}).ProtoReflect()
	}
	return c.schema.message("ExecSpec", values)
}

func (f *follower) stream(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := f.client
	from := c.schema.message("Offsets", fields{"stdout": uint64(len(f.out.stdout)), "stderr": uint64(len(f.out.stderr))}).ProtoReflect()
	common := fields{"exec_id": f.job.id, "scope": c.scope, "from": from}
	method, request := "Attach", "AttachRequest"
	if f.job.script != "" && !f.known {
		method, request = "Exec", "ExecRequest"
		spec := c.spec(f.job).ProtoReflect()
		common["spec"], common["digest"] = spec, digest(c.scope, spec)
	} else {
		common["follow"] = true
	}
	events, err := c.method(method).CallServerStream(ctx, c.request(c.schema.message(request, common)))
	if err != nil {
		return false, err
	}
	defer func() { _ = events.Close() }()
	begun, fed := make(chan struct{}), make(chan struct{})
	defer func() {
		cancel()
		<-fed
	}()
	go func() {
		defer close(fed)
		select {
		case <-begun:
			if f.feed(ctx) != nil {
				cancel() // the next stream brings the next attempt
			}
		case <-ctx.Done():
		}
	}()
	for first := true; events.Receive(); {
		ended, err := f.take(events.Msg().ProtoReflect())
		if f.known && first {
			first = false
			close(begun)
		}
		if ended || err != nil {
			return ended, err
		}
	}
	return false, events.Err()
}

// feed sends what the machine has not accepted yet, and the end.
func (f *follower) feed(ctx context.Context) error {
	const piece = 256 << 10
	for f.job.stdin != nil {
		data := f.job.stdin[f.accepted:min(f.accepted+piece, uint64(len(f.job.stdin)))]
		eof := f.accepted+uint64(len(data)) == uint64(len(f.job.stdin))
		answer, err := f.client.call(ctx, "WriteStdin", "WriteStdinRequest", fields{
			"exec_id": f.job.id, "scope": f.client.scope, "offset": f.accepted, "data": data, "eof": eof,
		})
		if err != nil {
			return err
		}
		f.accepted = min(get(answer, "accepted_to").Uint(), uint64(len(f.job.stdin)))
		if get(answer, "closed").Bool() || eof && f.accepted == uint64(len(f.job.stdin)) {
			return nil
		}
	}
	return nil
}

// take applies one event; what version 1 does not know is a sign of life.
func (f *follower) take(event protoreflect.Message) (ended bool, err error) {
	f.events++
	kind := event.WhichOneof(event.Descriptor().Oneofs().ByName("event"))
	if kind == nil {
		return false, nil
	}
	e := event.Get(kind).Message()
	switch kind.Name() {
	case "started":
		if !f.known && f.job.started != nil {
			f.job.started()
		}
		f.known = true
	case "chunk":
		return false, f.chunk(e)
	case "gap":
		return false, errors.New("a gap, where none was due")
	case "exit":
		if uint64(len(f.out.stdout)) < get(e, "stdout_end").Uint() || uint64(len(f.out.stderr)) < get(e, "stderr_end").Uint() {
			return false, nil
		}
		f.out.code, f.out.signal = int(get(e, "code").Int()), int(get(e, "signal").Int())
		return true, nil
	case "lost":
		return true, errors.New("the exec is lost")
	}
	return false, nil
}

func (f *follower) chunk(e protoreflect.Message) error {
	to := &f.out.stdout
	switch get(e, "stream").Enum() {
	case 1:
	case 2:
		to = &f.out.stderr
	default:
		return nil
	}
	offset, data := get(e, "offset").Uint(), get(e, "data").Bytes()
	have := uint64(len(*to))
	if offset > have {
		return fmt.Errorf("a chunk at %d after %d bytes", offset, have)
	}
	if end := offset + uint64(len(data)); end > have {
		*to = append(*to, data[have-offset:]...)
	}
	if f.job.output != nil {
		f.job.output(len(*to))
	}
	return nil
}
