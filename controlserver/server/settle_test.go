//go:build linux

package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func testExec(t *testing.T) *exec {
	t.Helper()
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"), filepath.Join(t.TempDir(), "aside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sp.Close() })
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	if err := sp.Create(id, false); err != nil {
		t.Fatal(err)
	}
	e := newExec(id, "s", nil, sp)
	e.spec = &wirev1.ExecSpec{DrainMs: 20}
	return e
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Found under load: a pump that was late let the exit say that nothing had been printed.
func TestLatePumpDelaysTheExit(t *testing.T) {
	e := testExec(t)
	r, w := pipe(t)
	if _, err := w.WriteString("output"); err != nil {
		t.Fatal(err)
	}
	p, err := pump.New(pump.Options{
		Pipe: r, Path: e.out.path, Book: e.out.book, Cap: 1 << 20, Grown: e.grow(e.out), Stored: func(int64) {},
		Room: func() wirev1.GapReason { return wirev1.GapReason_GAP_REASON_UNSPECIFIED },
	})
	if err != nil {
		t.Fatal(err)
	}
	e.out.pump = p
	e.err.closed.Store(true)
	settled := make(chan bool)
	go func() { settled <- e.settle() }()
	late := time.NewTimer(40 * e.drain())
	defer late.Stop()
	select {
	case <-settled:
		t.Fatal("the output settled with bytes in the pipe")
	case <-late.C:
	}
	done := make(chan error)
	go func() { done <- p.Run() }()
	if orphans := <-settled; !orphans || e.out.end.Load() != 6 {
		t.Fatalf("orphans %v, end %d", orphans, e.out.end.Load())
	}
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSilentStreamBeatsEveryFifteenSeconds(t *testing.T) {
	e := testExec(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		enough := errors.New("enough")
		sub := newSubscriber(e, nil, true, &outlet{send: func(m *wirev1.Event) error {
			if m.GetBeat() == nil {
				t.Errorf("got %v", m)
			}
			at = append(at, time.Since(begin))
			if len(at) == 3 {
				return enough
			}
			return nil
		}})
		err := sub.run(t.Context(), nil, func() (<-chan struct{}, error) { return nil, nil })
		if !errors.Is(err, enough) || len(at) != 3 || at[0] != 15*time.Second || at[2] != 45*time.Second {
			t.Fatalf("got %v, %v", at, err)
		}
	})
}

func TestHalfACharacterIsHeldForOneSecond(t *testing.T) {
	e := testExec(t)
	if err := os.WriteFile(e.out.path, []byte("a\xe2\x89"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.out.end.Store(3)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		type seen struct {
			data string
			at   time.Duration
		}
		var all []seen
		enough := errors.New("enough")
		sub := newSubscriber(e, nil, true, &outlet{send: func(m *wirev1.Event) error {
			all = append(all, seen{string(m.GetChunk().GetData()), time.Since(begin)})
			if len(all) == 2 {
				return enough
			}
			return nil
		}})
		err := sub.run(t.Context(), nil, func() (<-chan struct{}, error) { return nil, nil })
		if !errors.Is(err, enough) || all[0] != (seen{"a", 0}) || all[1] != (seen{"\xe2\x89", time.Second}) {
			t.Fatalf("got %v, %v", all, err)
		}
	})
}

func TestStreamOlderThanSixHoursAsksForAFreshToken(t *testing.T) {
	e := testExec(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &Server{fences: newFences(nil)}
		s.fences.of("s").loaded = true
		err := s.stream(t.Context(), 0, nil, newSubscriber(e, nil, true, &outlet{send: func(*wirev1.Event) error { return nil }}))
		refusal, ok := wire.AsError(err)
		if !ok || refusal.Reason != wirev1.ErrorReason_ERROR_REASON_TOKEN_RENEWAL || !refusal.Retryable || time.Since(begin) != 6*time.Hour {
			t.Fatalf("after %s: %v", time.Since(begin), err)
		}
	})
}

func TestLargeBuffersAreFewAndSmallOnesServeTheRest(t *testing.T) {
	var lent []*[]byte
	for range 2 * mostLarge {
		lent = append(lent, buffers.take(1<<20))
	}
	large := 0
	for _, b := range lent {
		if len(*b) == chunkRoom+wire.MaxChunk {
			large++
		}
		buffers.give(b)
	}
	if large != mostLarge {
		t.Fatalf("%d large buffers were lent", large)
	}
	if b := buffers.take(1 << 20); len(*b) != chunkRoom+wire.MaxChunk {
		t.Fatal("large buffers do not come back")
	} else {
		buffers.give(b)
	}
}

func TestEnvironmentOfTheRequestWins(t *testing.T) {
	spec := &wirev1.ExecSpec{
		Env: []*wirev1.EnvVar{{Name: []byte("PATH"), Value: []byte("/mine")}}, SecretEnv: []*wirev1.EnvVar{{Name: []byte("HOME"), Value: []byte("/h")}},
		Pty: &wirev1.Pty{Term: "vt100"},
	}
	var lines []string
	for _, l := range environment(spec, accountFixture, "/workspace") {
		lines = append(lines, string(l))
	}
	if got := strings.Join(lines, " "); got != "USER=tenant LANG=C.UTF-8 WORKSPACE=/workspace TERM=vt100 PATH=/mine HOME=/h" {
		t.Fatalf("got %s", got)
	}
}

var accountFixture = account.Account{Name: "tenant", Home: "/workspace"}
