//go:build linux

package server

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

const (
	goesOn = wirev1.ExitCause_EXIT_CAUSE_EXITED
	wall   = wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT
	alone  = wirev1.ExitCause_EXIT_CAUSE_UNATTENDED
)

func TestSuspendedTimeDoesNotCount(t *testing.T) {
	c := clock{}
	for range 4 {
		if cause, _ := c.pass(time.Second, true, 5000, 0); cause != goesOn {
			t.Fatalf("over after %d ms", c.Ran)
		}
	}
	// A minute passed in no time: the machine was suspended.
	if cause, _ := c.pass(59*time.Second+500*time.Millisecond, true, 5500, 0); cause != goesOn || c.Ran != 5000 {
		t.Fatalf("got %v after %d ms", cause, c.Ran)
	}
	if cause, _ := c.pass(500*time.Millisecond, true, 5500, 0); cause != wall {
		t.Fatalf("got %v after %d ms", cause, c.Ran)
	}
}

func TestClockIsLookedAtWhenALimitComes(t *testing.T) {
	for _, x := range []struct {
		ran, wall, unattended int64
		attended              bool
		want                  time.Duration
	}{
		{0, 300, 0, true, 200 * time.Millisecond},
		{0, 5000, 0, true, time.Second},
		{0, 0, 0, true, time.Second},
		{0, 5000, 150, false, 50 * time.Millisecond},
		{0, 5000, 150, true, 150 * time.Millisecond},
	} {
		c := clock{Ran: x.ran}
		if _, next := c.pass(100*time.Millisecond, x.attended, x.wall, x.unattended); next != x.want {
			t.Errorf("%+v: looks again after %s", x, next)
		}
	}
}

func TestHeldTimeDoesNotCountUntilEveryHoldIsOver(t *testing.T) {
	c := clock{Holds: map[string]int64{"a": 1500, "b": 3000}}
	for i, want := range []int64{0, 0, 0, 1000} {
		if c.pass(time.Second, true, 10000, 0); c.Ran != want {
			t.Fatalf("second %d: ran %d", i, c.Ran)
		}
	}
	if len(c.Holds) != 0 {
		t.Fatalf("got %v", c.Holds)
	}
}

func TestUnattendedTimeBeginsAnewWithEveryClient(t *testing.T) {
	c := clock{}
	for _, attended := range []bool{false, false, true, false, false} {
		if cause, _ := c.pass(time.Second, attended, 0, 3000); cause != goesOn {
			t.Fatalf("over after %d ms alone", c.Unattended)
		}
	}
	if cause, _ := c.pass(time.Second, false, 0, 3000); cause != alone {
		t.Fatalf("got %v after %d ms", cause, c.Unattended)
	}
}

func TestOutputIsKeptAsLongAsPromised(t *testing.T) {
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ago := func(d time.Duration) *wirev1.Exit { return &wirev1.Exit{EndedAtMs: now.Add(-d).UnixMilli()} }
	for name, x := range map[string]struct {
		scope     string
		ended     time.Duration
		forgotten bool
		pressed   bool
		due       bool
	}{
		"a runtime's, six days old":             {"s/one", 6 * 24 * time.Hour, false, false, false},
		"a runtime's, eight days old":           {"s/one", 8 * 24 * time.Hour, false, false, true},
		"a runtime's, under pressure":           {"s/one", time.Hour, false, true, false},
		"a runtime's, forgotten":                {"s/one", time.Second, true, false, true},
		"an operator's, an hour old":            {"op/alice", time.Hour, false, false, false},
		"an operator's, two days old":           {"op/alice", 48 * time.Hour, false, false, true},
		"an operator's, a second, under duress": {"op/alice", time.Second, false, true, true},
	} {
		e := newExec(id, x.scope, nil, spool.Join(t.TempDir(), t.TempDir()))
		e.exit, e.forgotten = ago(x.ended), x.forgotten
		if due(e, x.pressed, now) != x.due {
			t.Errorf("%s: due is %v", name, !x.due)
		}
	}
}

// Found by killing the server while it collected: half of the files were gone, and the exec looked as if
// it had lost its output.
func TestBuriedExecIsGoneThoughItsFilesAreThere(t *testing.T) {
	sp, err := spool.Open(filepath.Join(t.TempDir(), "spool"), filepath.Join(t.TempDir(), "aside"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sp.Close() })
	graves, err := sp.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	log, err := sp.Begin(id, false, []byte(`{"scope":"s"}`))
	if err != nil {
		t.Fatal(err)
	}
	log.Close()
	if err := sp.AppendExit(id, &wirev1.Exit{StdoutEnd: 9}); err != nil {
		t.Fatal(err)
	}
	if err := graves.Bury(spool.Tomb{ID: id, Scope: "s", Exit: &wirev1.Exit{StdoutEnd: 9}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	r := newRegistry(sp, graves, &door{now: time.Now, most: 1}, slog.New(slog.DiscardHandler))
	e, err := r.stored(id)
	if err != nil {
		t.Fatal(err)
	}
	if gap, _ := e.out.book.At(0, 9); gap == nil || gap.To != 9 || gap.Reason != wirev1.GapReason_GAP_REASON_COLLECTED {
		t.Fatalf("got %+v", gap)
	}
	j := startJanitor(t.Context(), r, time.Now)
	defer j.stop()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); sp.Has(id); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the files are still there")
		}
	}
}
