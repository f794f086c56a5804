//go:build linux

package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// waits until an entry of a kind is there.
func (x *trial) waits(kind journal.Kind) {
	x.t.Helper()
	x.soon(func() string { return fmt.Sprintf("no %s in time: %v", kind, x.kinds()) }, func() bool {
		return slices.ContainsFunc(x.entries(), func(e journal.Entry) bool { return e.Kind == kind })
	})
}

// The owner is not dead: it stood still for longer than its lease, as a suspended VM does, and goes on while, or after,
// another one has finished its work. nearai/ironclaw#7471. That it once said "running" keeps nobody from going on.
// OpenHands/software-agent-sdk#4893.
func TestOwnerThatStoodStillWritesNothingMore(t *testing.T) {
	moments(t, func(t *testing.T, m *computer, during journal.Kind) {
		x := newTrial(t, m)
		first := x.start()
		x.waits(during)
		first.signal(syscall.SIGSTOP)
		second := x.start()
		x.fenceRises(1)
		first.signal(syscall.SIGCONT)
		if second.diesOrSettles() {
			t.Fatal("killed by nobody of ours")
		}
		// By now it has heard of its fate, and lives: it stops like any other.
		first.stop()
		second.stop()
		x.verify()
	})
}

// moments runs a test at some moments of the work; in the short form while a command runs.
func moments(t *testing.T, run func(*testing.T, *computer, journal.Kind)) {
	m := startBare(t)
	during := []journal.Kind{journal.KindExecStarted}
	if long() {
		during = append(during, journal.KindTurnStarted, journal.KindModelRequested, journal.KindToolResult, journal.KindApprovalRequested)
	}
	t.Run("during", func(t *testing.T) {
		for _, kind := range during {
			t.Run(kind.String(), func(t *testing.T) {
				t.Parallel()
				run(t, m, kind)
			})
		}
	})
}

// fenceRises waits until the session has been claimed more often than so.
func (x *trial) fenceRises(above int64) {
	x.t.Helper()
	x.soon(func() string { return "nobody takes the session over" }, func() bool {
		now, err := x.db.Session(x.t.Context(), tenant, x.session)
		if err != nil {
			x.t.Fatal(err)
		}
		return now.Fence > above
	})
}

// A stop in good order hands the session over at the next entry, while its command runs: the next owner goes on, and no
// attempt is counted. cardstack/boxel#4860, livekit-examples/agent-deployment#20.
func TestStopHandsOverWhileCommandsRun(t *testing.T) {
	moments(t, func(t *testing.T, m *computer, during journal.Kind) {
		x := newTrial(t, m)
		first := x.start()
		x.waits(during)
		first.stop()
		if x.isSettled() {
			t.Fatal("settled before it was handed over")
		}
		x.finish()
		now, err := x.db.Submission(t.Context(), tenant, x.work.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Attempts != 0 {
			t.Errorf("a stop in good order counted %d attempts", now.Attempts)
		}
	})
}

// The machine dies with its commands and comes back as another life of itself, and the owner dies too: what ran is lost, is
// said to be, and is not run again.
func TestMachineRestartLosesNothingSilently(t *testing.T) {
	m := machinetest.Start(t, machinetest.Options{})
	x := newTrial(t, bare(m))
	first := x.start("output.after")
	if !first.diesOrSettles() {
		t.Fatal("settled before there was output")
	}
	m.Signal(syscall.SIGKILL)
	_ = m.Wait()
	x.on(bare(machinetest.Start(t, machinetest.Options{Data: m.Data, Root: &m.Root})))
	last := x.start()
	if last.diesOrSettles() {
		t.Fatal("killed by nobody of ours")
	}
	last.stop()
	x.lostIsSaid()
	for _, name := range []string{"a", "b", "gated"} {
		if lines := x.read(name); strings.Count(lines, "x") > 1 {
			t.Errorf("the side effect of %s was had %d times", name, strings.Count(lines, "x"))
		}
	}
	if x.read("a") != "x\n" {
		t.Errorf("the command that was lost had left %q", x.read("a"))
	}
}

// lostIsSaid: the work has ended, and of each call whose command was lost the model was told so.
func (x *trial) lostIsSaid() {
	x.t.Helper()
	x.settledOnce()
	lost := 0
	for id, call := range x.folds().Calls {
		if call.Result == nil {
			x.t.Errorf("call %s has no result", id)
			continue
		}
		if call.Exec != nil && call.Exec.State == journal.ExecLost {
			lost++
			if call.Result.Outcome != journalv1.ToolOutcome_TOOL_OUTCOME_ERROR || !strings.Contains(string(call.Result.Content), "lost") {
				x.t.Errorf("the lost call %s: %s: %s", id, call.Result.Outcome, call.Result.Content)
			}
		}
	}
	if lost == 0 {
		x.t.Errorf("no command was lost: %v", x.kinds())
	}
}

// The machine is destroyed under a command, and the owner dies too. The next one hears from the platform that it is gone: the command
// is lost, and nothing of it is started elsewhere; what comes after it has a slot on the tenant's other machine.
func TestMachineGoneIsLostAndTheNextCommandGoesElsewhere(t *testing.T) {
	f := startFleet(t)
	x := newTrial(t, f.machine("before"))
	first := x.start("output.after")
	if !first.diesOrSettles() {
		t.Fatal("settled before there was output")
	}
	f.destroy(x.machine)
	x.on(f.machine("after"))
	last := x.start()
	if last.diesOrSettles() {
		t.Fatal("killed by nobody of ours")
	}
	last.stop()
	x.lostIsSaid()
	if x.read("a") != "" {
		t.Error("the lost command was started again on the other machine")
	}
	if x.read("gated") != "x\n" {
		t.Errorf("the next command left %q", x.read("gated"))
	}
	slot, has, err := x.db.SlotOf(t.Context(), x.session)
	if err != nil || !has || slot.Machine != x.machine.id {
		t.Errorf("the session's slot is %+v, %t, %v; want one on %s", slot, has, err, x.machine.id)
	}
}
