package engine

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/registry"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

const deadline = 20 * time.Second

// stub is a runner whose machines listen where the test says, and that remembers what it was told.
type stub struct {
	mu      sync.Mutex
	listen  string // host:port behind every port; empty refuses.
	specs   []runner.Spec
	stops   []string
	lives   []*stubInstance
	broken  bool
	removed []string
}

func (s *stub) Name() string  { return "stub" }
func (s *stub) Level() string { return "stub" }
func (s *stub) Close() error  { return nil }

func (s *stub) Cleanup(_ context.Context, dir string) error {
	s.set(func() { s.removed = append(s.removed, dir) })
	return nil
}

func (s *stub) RemoveVolume(ctx context.Context, dir string) error { return s.Cleanup(ctx, dir) }

func (s *stub) Start(_ context.Context, spec runner.Spec) (runner.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.specs = append(s.specs, spec)
	if s.broken {
		return nil, errors.New("no such program")
	}
	i := &stubInstance{stub: s, down: make(chan struct{})}
	s.lives = append(s.lives, i)
	return i, nil
}

func (s *stub) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stub) last() (*stubInstance, runner.Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives[len(s.lives)-1], s.specs[len(s.specs)-1]
}

type stubInstance struct {
	stub   *stub
	mu     sync.Mutex
	ended  bool
	frozen bool
	exit   runner.Exit
	down   chan struct{}
}

func (i *stubInstance) end(exit runner.Exit) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return runner.ErrDown
	}
	i.ended, i.exit = true, exit
	close(i.down)
	return nil
}

func (i *stubInstance) Wait() runner.Exit { <-i.down; return i.exit }

func (i *stubInstance) Stop(_ context.Context, signal string, timeout time.Duration) error {
	i.stub.set(func() { i.stub.stops = append(i.stub.stops, signal+" "+timeout.String()) })
	return i.end(runner.Exit{Requested: true})
}

func (i *stubInstance) Kill() error {
	i.stub.set(func() { i.stub.stops = append(i.stub.stops, "kill") })
	return i.end(runner.Exit{Code: 137, Signal: 9, Requested: true})
}
func (i *stubInstance) Signal(string) error { return nil }

func (i *stubInstance) freeze(frozen bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return runner.ErrDown
	}
	i.frozen = frozen
	return nil
}
func (i *stubInstance) Suspend() error { return i.freeze(true) }
func (i *stubInstance) Resume() error  { return i.freeze(false) }

func (i *stubInstance) Exec(_ context.Context, req runner.ExecRequest) (runner.ExecResult, error) {
	return runner.ExecResult{Stdout: []byte(strings.Join(req.Argv, " "))}, nil
}
func (i *stubInstance) Ps(context.Context) ([]runner.Process, error) { return nil, nil }

func (i *stubInstance) Dial(ctx context.Context, _ int) (net.Conn, error) {
	i.stub.mu.Lock()
	address := i.stub.listen
	i.stub.mu.Unlock()
	if address == "" {
		return nil, errors.New("connection refused")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// anyImage finds every image.
type anyImage struct{ image v1.Image }

func (anyImage) Resolve(text string) (state.ImageRef, error) {
	ref, err := registry.ParseRef(text)
	ref.Digest = "sha256:" + strings.Repeat("0", 64)
	return ref, err
}

func (a anyImage) Pull(_ context.Context, text string) (state.ImageRef, v1.Image, error) {
	ref, err := registry.ParseRef(text)
	return ref, a.image, err
}

func open(t *testing.T, dir string, s *stub, image v1.Image) *World {
	t.Helper()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(t.Context(), Config{Store: store, Runner: s, Images: anyImage{image}, Log: slog.New(slog.DiscardHandler), Settle: time.Millisecond, Unbind: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := errors.Join(w.Close(ctx), store.Close()); err != nil && !strings.Contains(err.Error(), "already closed") {
			t.Error(err)
		}
	})
	return w
}

func create(t *testing.T, w *World, config string) MachineView {
	t.Helper()
	if _, err := w.App("app"); err != nil {
		if _, err := w.CreateApp(AppInput{Name: "app", Network: "own"}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.CreateMachine("app", MachineInput{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	return settle(t, w, m.ID)
}

func settle(t *testing.T, w *World, id string) MachineView {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if _, err := w.Wait(ctx, "app", id, WaitInput{States: []string{Settled}, Timeout: deadline}); err != nil {
		t.Fatal(err)
	}
	m, err := w.Machine("app", id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}
