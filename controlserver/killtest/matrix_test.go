package killtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// goal is how much must have happened before a run counts.
type goal struct {
	execs int
	bytes int64
	// kills at each point, and at random.
	kills int
	// lines of one long stream, and of one of small writes.
	streamLines, slowLines int
	patience               time.Duration
}

func shortOrLong() goal {
	if long() {
		return goal{execs: 1600, bytes: 2 << 30, kills: 30, streamLines: 14_000_000, slowLines: 400_000, patience: 20 * time.Minute}
	}
	return goal{execs: 150, bytes: 64 << 20, kills: 2, streamLines: 2_000_000, slowLines: 50_000, patience: 3 * time.Minute}
}

// Whoever is killed, and whenever: every command runs exactly once, ends with its own code, and each of
// its bytes arrives in its place.
func TestKillMatrix(t *testing.T) {
	t.Parallel()
	sum := new(tally)
	t.Run("all", func(t *testing.T) {
		t.Run("server", func(t *testing.T) { t.Parallel(); serverKilled(t, sum) })
		t.Run("client", func(t *testing.T) { t.Parallel(); clientKilled(t, sum) })
		t.Run("connection", func(t *testing.T) { t.Parallel(); connectionCut(t, sum) })
		t.Run("stalled", func(t *testing.T) { t.Parallel(); readersStalled(t, sum) })
	})
	if t.Failed() {
		return
	}
	if sum.exact != sum.execs {
		t.Fatalf("%d of %d execs were exact", sum.exact, sum.execs)
	}
	verdict = sum.String()
	t.Log(verdict)
}

var points = []crashpoint.Point{
	crashpoint.BeforeOrder, crashpoint.BeforeMkdir, crashpoint.MkdirFork, crashpoint.ForkStarted,
	crashpoint.StartedReply, crashpoint.Pumping, crashpoint.Pty, crashpoint.Stdin, crashpoint.ExitNotify,
	crashpoint.ExitRecord, crashpoint.Attach, crashpoint.Forget, crashpoint.Adopted,
}

func serverKilled(t *testing.T, sum *tally) {
	goal := shortOrLong()
	m := start(t, machinetest.Options{})
	hello, err := m.Client(machinetest.ClientOptions{}).Hello(limited(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	book, k := newLedger(), newKiller(m, points...)
	l := newLoad(m, book, goal, hello.GetLimits().GetMaxCapBytes())
	ctx := limited(t, goal.patience)
	murder, pardon := context.WithCancel(ctx)
	killed := make(chan error, 1)
	go func() { killed <- k.run(murder) }()
	go func() {
		defer close(l.enough)
		_ = until(ctx, func() bool {
			execs, bytes := book.size()
			_, each := k.sum(goal.kills)
			return each && execs >= goal.execs && bytes >= goal.bytes
		})
	}()
	err = l.run(ctx)
	pardon()
	if err := errors.Join(err, <-killed); err != nil {
		t.Errorf("after %v: %v", k, err)
	}
	kills, each := k.sum(goal.kills)
	execs, bytes := book.size()
	t.Logf("%d execs, %d MB, kills: %v", execs, bytes>>20, k)
	if !each {
		t.Errorf("too few kills at some point: %v", k)
	}
	sum.add(execs, kills, book.exact(t, m.Data))
}

// unknown says whether the machine does not know an exec.
func unknown(err error) bool {
	refusal, ok := wire.AsError(err)
	return ok && refusal.Reason == wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC
}
