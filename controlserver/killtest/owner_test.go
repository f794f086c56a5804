package killtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// begun is a command that runs in the background.
type begun struct {
	id   string
	out  bytes.Buffer
	got  client.Result
	err  error
	done chan struct{}
}

// begin starts a command and returns once it has a process.
func begin(ctx context.Context, t *testing.T, c *client.Client, id string, spec *wirev1.ExecSpec) *begun {
	t.Helper()
	b := &begun{id: id, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	started := make(chan struct{})
	sink := &startedSink{Sink: client.Writers(&b.out, nil), seen: func() { close(started) }}
	go func() {
		defer close(b.done)
		b.got, b.err = c.Run(ctx, client.Command{ID: id, Spec: spec, Follow: patient}, sink)
	}()
	t.Cleanup(func() { cancel(); <-b.done })
	select {
	case <-started:
	case <-b.done:
		t.Fatalf("the command ended before it started: %v", b.err)
	}
	return b
}

type startedSink struct {
	client.Sink
	seen func()
}

func (s *startedSink) Started(started *wirev1.Started) error {
	s.seen()
	return s.Sink.Started(started)
}

// acts are all that an owner can do to an exec.
func acts(ctx context.Context, rpc wirev1connect.ControlServiceClient, scope string, fence uint64, id string) map[string]error {
	_, kill := rpc.Signal(ctx, connect.NewRequest(&wirev1.SignalRequest{
		ExecId: id, Scope: scope, Fence: fence, Signal: int32(syscall.SIGKILL), Target: wirev1.SignalTarget_SIGNAL_TARGET_TREE,
	}))
	_, write := rpc.WriteStdin(ctx, connect.NewRequest(&wirev1.WriteStdinRequest{ExecId: id, Scope: scope, Fence: fence, Data: []byte("stale\n"), Eof: true}))
	_, forget := rpc.Forget(ctx, connect.NewRequest(&wirev1.ForgetRequest{ExecId: id, Scope: scope, Fence: fence}))
	_, hold := rpc.Hold(ctx, connect.NewRequest(&wirev1.HoldRequest{ExecId: id, Scope: scope, Fence: fence, Key: "k", TtlMs: 1000}))
	_, resize := rpc.Resize(ctx, connect.NewRequest(&wirev1.ResizeRequest{ExecId: id, Scope: scope, Fence: fence, Cols: 80, Rows: 24}))
	return map[string]error{"signal": kill, "write stdin": write, "forget": forget, "hold": hold, "resize": resize}
}

func reason(err error) wirev1.ErrorReason {
	refusal, ok := wire.AsError(err)
	if !ok {
		return wirev1.ErrorReason_ERROR_REASON_UNSPECIFIED
	}
	return refusal.Reason
}

// A runtime that was replaced and does not know it yet must not touch the machine, also not after the
// server that heard of its successor has died.
func TestStaleFenceCanNeitherStartNorKillNorWriteNorForget(t *testing.T) {
	t.Parallel()
	m := start(t, machinetest.Options{})
	ctx := limited(t, 2*time.Minute)
	old, next := m.Client(machinetest.ClientOptions{Fence: 3}), m.Client(machinetest.ClientOptions{Fence: 4})
	ended := newID()
	if got, err := old.Run(ctx, client.Command{ID: ended, Spec: script(ended, "echo kept")}, client.Writers(nil, nil)); err != nil || right(got, 0) != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	spec := script(newID(), "cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	cat := begin(ctx, t, next, newID(), spec)

	for round := range 2 {
		stale := acts(ctx, old.RPC(), machinetest.Scope, 3, cat.id)
		_, stale["forget the ended"] = old.RPC().Forget(ctx, connect.NewRequest(&wirev1.ForgetRequest{ExecId: ended, Scope: machinetest.Scope, Fence: 3}))
		_, stale["forbid"] = old.RPC().Forbid(ctx, connect.NewRequest(&wirev1.ForbidRequest{ExecId: newID(), Scope: machinetest.Scope, Fence: 3}))
		id := newID()
		_, stale["start"] = old.Run(ctx, client.Command{ID: id, Spec: script(id, "true")}, client.Writers(nil, nil))
		for what, err := range stale {
			if reason(err) != wirev1.ErrorReason_ERROR_REASON_FENCED {
				t.Errorf("round %d: %s: %v", round, what, err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(m.Data, "workspace", "count")); err != nil || strings.Contains(string(b), id) {
			t.Fatalf("round %d: a stale start ran, or %v", round, err)
		}
		m.fell(ctx, t)
		// A single call is not repeated by the client: both find the new server first.
		for _, c := range []*client.Client{old, next} {
			if err := until(ctx, func() bool { _, err := c.Hello(ctx); return err == nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer, err := next.RPC().WriteStdin(ctx, connect.NewRequest(&wirev1.WriteStdinRequest{
		ExecId: cat.id, Scope: machinetest.Scope, Fence: 4, Data: []byte("rightful\n"), Eof: true,
	}))
	if err != nil || answer.Msg.GetAcceptedTo() != 9 {
		t.Fatalf("got %v, %v", answer, err)
	}
	<-cat.done
	if err := errors.Join(cat.err, right(cat.got, 0)); err != nil || cat.out.String() != "rightful\n" {
		t.Fatalf("got %q, %v", cat.out.String(), err)
	}
	var kept bytes.Buffer
	if got, err := next.Attach(ctx, ended, patient, client.Writers(&kept, nil)); err != nil || right(got, 0) != nil || kept.String() != "kept\n" {
		t.Fatalf("got %q, %v, %v", kept.String(), got, err)
	}
}

func TestSessionsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	m := start(t, machinetest.Options{})
	ctx := limited(t, 2*time.Minute)
	const theirs = "s/two"
	mine, other := m.Client(machinetest.ClientOptions{}), m.Client(machinetest.ClientOptions{Scope: theirs})
	spec := script(newID(), "cat")
	spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	cat := begin(ctx, t, mine, newID(), spec)

	for what, err := range acts(ctx, other.RPC(), theirs, 0, cat.id) {
		// Forgetting what is unknown is no error, and forgets nothing.
		if want := wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC; reason(err) != want && (what != "forget" || err != nil) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range acts(ctx, other.RPC(), machinetest.Scope, 0, cat.id) {
		if reason(err) != wirev1.ErrorReason_ERROR_REASON_SCOPE {
			t.Errorf("%s with another scope's token: %v", what, err)
		}
	}
	if _, err := other.Attach(ctx, cat.id, client.Follow{}, client.Writers(nil, nil)); !unknown(err) {
		t.Errorf("attach: %v", err)
	}
	if _, err := other.Run(ctx, client.Command{ID: cat.id, Spec: spec}, client.Writers(nil, nil)); reason(err) != wirev1.ErrorReason_ERROR_REASON_CONFLICT {
		t.Errorf("start of the same id: %v", err)
	}
	list, err := other.RPC().List(ctx, connect.NewRequest(&wirev1.ListRequest{Scope: theirs}))
	if err != nil || len(list.Msg.GetExecs()) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	// Fences are a scope's own: a person, or another session, is no new owner of this one.
	if _, err := other.RPC().List(ctx, connect.NewRequest(&wirev1.ListRequest{Scope: theirs, Fence: 99})); err != nil {
		t.Error(err)
	}
	if _, err := mine.RPC().WriteStdin(ctx, connect.NewRequest(&wirev1.WriteStdinRequest{ExecId: cat.id, Scope: machinetest.Scope, Data: []byte("mine\n"), Eof: true})); err != nil {
		t.Fatal(err)
	}
	<-cat.done
	if err := errors.Join(cat.err, right(cat.got, 0)); err != nil || cat.out.String() != "mine\n" {
		t.Fatalf("got %q, %v", cat.out.String(), err)
	}
}
