package skew_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func TestMain(m *testing.M) { machinetest.Main(m) }

// job is what a client is asked to do; without a script it attaches.
type job struct {
	id, script string
	stdin      []byte
	started    func()
	output     func(have int) // after each chunk
}

// outcome is what a client saw.
type outcome struct {
	stdout, stderr []byte
	code, signal   int
	reattached     int
}

// user is a client of any version, host a server of any.
type user interface {
	run(ctx context.Context, j job) (outcome, error)
}

type host interface {
	where() string
	kill()
	token(scope string) string
}

const scope = machinetest.Scope

// today is this build's client.
type today struct{ *client.Client }

func newToday(t *testing.T, h host) today {
	t.Helper()
	c, err := client.New(client.Options{
		Address: h.where(), Scope: scope,
		Tokens: client.TokenFunc(func(context.Context) (string, error) { return h.token(scope), nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return today{c}
}

func (c today) run(ctx context.Context, j job) (outcome, error) {
	sink := &todaySink{job: j}
	follow := client.Follow{Wait: 30 * time.Second}
	var r client.Result
	var err error
	if j.script == "" {
		r, err = c.Attach(ctx, j.id, follow, sink)
	} else {
		spec := &wirev1.ExecSpec{Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte(j.script)}}
		if j.stdin != nil {
			spec.Stdin, follow.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}, bytes.NewReader(j.stdin)
		}
		r, err = c.Run(ctx, client.Command{ID: j.id, Spec: spec, Follow: follow}, sink)
	}
	if err == nil && (r.Exit == nil || len(r.Gaps) > 0) {
		err = errors.New("no exit, or gaps")
	}
	o := sink.out
	o.code, o.signal, o.reattached = int(r.Exit.GetCode()), int(r.Exit.GetSignal()), r.Reattached
	return o, err
}

type todaySink struct {
	job job
	out outcome
}

func (s *todaySink) Started(*wirev1.Started) error {
	if s.job.started != nil {
		s.job.started()
	}
	return nil
}

func (s *todaySink) Gap(*wirev1.Gap) error { return nil }

func (s *todaySink) Output(stream wirev1.Stream, _ uint64, data []byte) error {
	to := &s.out.stdout
	if stream == wirev1.Stream_STREAM_STDERR {
		to = &s.out.stderr
	}
	*to = append(*to, data...)
	if s.job.output != nil {
		s.job.output(len(*to))
	}
	return nil
}

// todayHost is this build's control server.
type todayHost struct{ *machinetest.Machine }

func (h todayHost) where() string             { return h.Address }
func (h todayHost) kill()                     { h.KillServer() }
func (h todayHost) token(scope string) string { return h.Token(scope) }

func (p *peerServer) where() string       { return p.address }
func (p *peerServer) token(string) string { return "any" }

func peer(t *testing.T, s *schema, h host) *peerClient {
	t.Helper()
	return newPeerClient(t, s, h.where(), scope, func() string { return h.token(scope) })
}

func TestEveryPairingOfVersionsKeepsThePromises(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T) (host, func() user){
		"frozen client, today's server": func(t *testing.T) (host, func() user) {
			h, s := todayHost{machinetest.Start(t, machinetest.Options{})}, frozen(t)
			return h, func() user { return peer(t, s, h) }
		},
		"today's client, frozen server": func(t *testing.T) (host, func() user) {
			h := newPeerServer(t, frozen(t), false)
			return h, func() user { return newToday(t, h) }
		},
		"frozen client, frozen server": func(t *testing.T) (host, func() user) {
			h, s := newPeerServer(t, frozen(t), false), frozen(t)
			return h, func() user { return peer(t, s, h) }
		},
		"today's client, future server": func(t *testing.T) (host, func() user) {
			h := newPeerServer(t, future(t), true)
			return h, func() user { return newToday(t, h) }
		},
		"future client, today's server": func(t *testing.T) (host, func() user) {
			h, s := todayHost{machinetest.Start(t, machinetest.Options{})}, future(t)
			return h, func() user {
				c := peer(t, s, h)
				c.later = s.adorn
				return c
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, client := pair(t)
			// A pairing that fails once says nothing more by the rest.
			_ = t.Run("exec", func(t *testing.T) { runs(t, client()) }) &&
				t.Run("attach", func(t *testing.T) { attaches(t, client(), client()) }) &&
				t.Run("kill and reattach", func(t *testing.T) { survivesKills(t, h, client()) }) &&
				t.Run("upload", func(t *testing.T) { uploads(t, h, client()) })
		})
	}
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// errTooLong is the end of a call that neither came to its end nor was refused. Peers that do not
// understand each other are told at once, so that only a silent one is waited for.
var errTooLong = errors.New("the peers did not come to an end within 30 s")

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 30*time.Second, errTooLong)
	t.Cleanup(cancel)
	return ctx
}

func runs(t *testing.T, c user) {
	got, err := c.run(within(t), job{id: newID(t), script: `printf 'o\377ut'; printf err >&2; exit 7`})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.stdout) != "o\xffut" || string(got.stderr) != "err" || got.code != 7 || got.signal != 0 {
		t.Errorf("%+v", got)
	}
	got, err = c.run(within(t), job{id: newID(t), script: "kill -KILL $$"})
	if err != nil || got.signal != 9 {
		t.Errorf("%v, %+v", err, got)
	}
}

// attaches asks twice for one exec: the second gets all of it, also when it asks to start it again.
func attaches(t *testing.T, first, second user) {
	j := job{id: newID(t), script: "echo $$; exit 3"}
	want, err := first.run(within(t), j)
	if err != nil || want.code != 3 {
		t.Fatalf("%v, %+v", err, want)
	}
	for _, again := range []job{{id: j.id}, j} {
		got, err := second.run(within(t), again)
		if err != nil || got.code != 3 || !bytes.Equal(got.stdout, want.stdout) {
			t.Errorf("%v, %+v, want %+v", err, got, want)
		}
	}
}

// survivesKills kills the server at three points of one command's output.
func survivesKills(t *testing.T, h host, c user) {
	const lines = 200
	var want strings.Builder
	for i := range lines {
		want.WriteString("line " + strconv.Itoa(i) + "\n")
	}
	kills := []int{1, 600, 1200}
	var killers sync.WaitGroup
	got, err := c.run(within(t), job{
		id:     newID(t),
		script: `i=0; while [ $i -lt 200 ]; do echo "line $i"; i=$((i+1)); sleep 0.005; done; exit 4`,
		output: func(have int) {
			if len(kills) > 0 && have >= kills[0] {
				kills = kills[1:]
				killers.Go(func() { h.kill() })
			}
		},
	})
	killers.Wait()
	if err != nil || got.code != 4 || string(got.stdout) != want.String() || got.reattached == 0 {
		t.Errorf("%v, code %d, attached again %d times, %d bytes of %d", err, got.code, got.reattached, len(got.stdout), want.Len())
	}
}

// uploads sends content of all bytes, with a kill in the middle.
func uploads(t *testing.T, h host, c user) {
	content := make([]byte, 3<<20+11)
	source := rand.NewChaCha8([32]byte{3})
	_, _ = source.Read(content)
	var once sync.Once
	var killers sync.WaitGroup
	got, err := c.run(within(t), job{
		id: newID(t), script: "exec cat", stdin: content,
		output: func(have int) {
			if have > 1<<20 {
				once.Do(func() { killers.Go(func() { h.kill() }) })
			}
		},
	})
	killers.Wait()
	if err != nil || got.code != 0 || !bytes.Equal(got.stdout, content) {
		t.Errorf("%v, code %d, %d bytes of %d, equal %v", err, got.code, len(got.stdout), len(content), bytes.Equal(got.stdout, content))
	}
}

// What a later client asks for and this server does not know is refused by a reason; never run in part.
func TestTodaysServerRefusesWhatOnlyTheFutureKnows(t *testing.T) {
	h := todayHost{machinetest.Start(t, machinetest.Options{})}
	c := peer(t, future(t), h)
	c.later = c.schema.adorn
	if _, err := c.call(within(t), "Teleport", "HelloRequest", fields{}); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("a new call: %v", err)
	}
	hello, err := c.call(within(t), "Hello", "HelloRequest", fields{"wire_min": uint32(1), "wire_max": uint32(7)})
	if err != nil || get(hello, "wire_version").Uint() != 1 {
		t.Errorf("a wider range of versions: %v, %v", hello, err)
	}
	if _, err := c.call(within(t), "Hello", "HelloRequest", fields{"wire_min": uint32(2), "wire_max": uint32(7)}); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_VERSION {
		t.Errorf("no common version: %v", err)
	}
	made := filepath.Join(h.Data, "workspace", "ran")
	for name, change := range map[string]func(spec protoreflect.Message){
		"a new stdin mode": func(spec protoreflect.Message) {
			spec.Set(spec.Descriptor().Fields().ByName("stdin"), protoreflect.ValueOfMessage(
				c.schema.message("Stdin", fields{"mode": protoreflect.EnumNumber(newValue)}).ProtoReflect()))
		},
		"a new cap policy": func(spec protoreflect.Message) {
			spec.Set(spec.Descriptor().Fields().ByName("cap_policy"), protoreflect.ValueOfEnum(newValue))
		},
	} {
		spec := c.spec(job{script: "touch " + made}).ProtoReflect()
		change(spec)
		if err := start(t, c, spec, digest(scope, spec)); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A new field of a spec is in the digest of whoever knows it, so that nobody who does not starts it.
	spec := c.spec(job{script: "touch " + made}).ProtoReflect()
	sum := digest(scope+"\x00novelty", spec)
	spec.Set(spec.Descriptor().Fields().ByName("novelty"), protoreflect.ValueOfString("run it on the moon"))
	var refusal *wire.Error
	if err := start(t, c, spec, sum); !errors.As(asError(err), &refusal) || refusal.Field != "digest" {
		t.Errorf("a new field of a spec: %v", err)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("a refused start ran: %v", err)
	}
	j := job{id: newID(t), script: "exec sleep 600"}
	ctx, cancel := context.WithCancel(within(t))
	started, ended := make(chan struct{}), make(chan error, 1)
	j.started = func() { close(started) }
	go func() {
		_, err := c.run(ctx, j)
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the exec did not start: %v", err)
	}
	_, err = c.call(within(t), "Signal", "SignalRequest", fields{"exec_id": j.id, "scope": scope, "signal": int32(9), "target": protoreflect.EnumNumber(newValue)})
	if wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_INVALID {
		t.Errorf("a new target: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that left: %v", err)
	}
}

func asError(err error) error {
	if e, ok := wire.AsError(err); ok {
		return e
	}
	return err
}

// start asks to start a spec and returns the refusal.
func start(t *testing.T, c *peerClient, spec protoreflect.Message, sum []byte) error {
	t.Helper()
	events, err := c.method("Exec").CallServerStream(within(t), c.request(c.schema.message("ExecRequest", fields{
		"exec_id": newID(t), "scope": scope, "spec": spec, "digest": sum,
	})))
	if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	if events.Receive() {
		t.Errorf("it was started: %v", events.Msg())
	}
	return events.Err()
}

// What today's client does not get from a server of the past is a refusal with a reason, at once.
func TestTodaysClientIsToldWhatAFrozenServerLacks(t *testing.T) {
	h := newPeerServer(t, frozen(t), false)
	c := newToday(t, h)
	hello, err := c.Hello(within(t))
	if err != nil || hello.GetWireVersion() != 1 {
		t.Fatalf("%v, %v", hello, err)
	}
	if _, err := c.List(within(t), false); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_UNIMPLEMENTED {
		t.Errorf("list: %v", err)
	}
	if _, err := c.Attach(within(t), newID(t), client.Follow{}, client.Writers(nil, nil)); wire.ReasonOf(err) != wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC {
		t.Errorf("attach: %v", err)
	}
}

// Both ends of today agree with the frozen digest; a change of it would make every retry across an upgrade
// a conflict.
func TestDigestOfTodayIsTheFrozenOne(t *testing.T) {
	spec := &wirev1.ExecSpec{
		Argv: [][]byte{[]byte("sh"), {0xff}}, Env: []*wirev1.EnvVar{{Name: []byte("A"), Value: []byte("b")}},
		SecretEnv: []*wirev1.EnvVar{{Name: []byte("S"), Value: []byte("secret")}}, Cwd: []byte("/x"), User: "u",
		Pty: &wirev1.Pty{Cols: 1, Rows: 2, Term: "vt"}, MergeStderr: true, WallTimeoutMs: 3, TermGraceMs: 4, UnattendedTimeoutMs: 5,
		DrainMs: 6, StdoutCapBytes: 7, StderrCapBytes: 8, CapPolicy: 2, SyncOnExit: true,
	}
	for name, stdin := range map[string]*wirev1.Stdin{
		"none": nil, "pipe": {Mode: 2, Length: 9, Sha256: bytes.Repeat([]byte{1}, 32)}, "inline": {Mode: 3, Inline: []byte("content")},
	} {
		spec.Stdin = stdin
		if !bytes.Equal(wire.Digest("s/x", spec), digest("s/x", retold(t, spec))) {
			t.Errorf("%s: the digests differ", name)
		}
	}
}
