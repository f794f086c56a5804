package sandboxtest

import (
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var signalCases = []Case{
	{Name: "a signal ends a command, with its cause", run: func(t *trial) {
		for _, target := range []sandbox.Target{sandbox.Leader, sandbox.Group, sandbox.Tree} {
			p := t.start(sandbox.Command{Argv: []string{"sleep", "1000"}})
			signalled(t, p, syscall.SIGTERM, target, true)
			exit := t.follow(p, offsets0).exit
			t.same("code", exit.Code, 143)
			t.same("signal", exit.Signal, 15)
			t.same("cause", exit.Cause, sandbox.CauseSignalled)
		}
	}},
	{Name: "a signal that ends nothing is no cause", run: func(t *trial) {
		t.fifo("go")
		p := t.start(shell(`trap 'echo usr1' USR1; echo ready; while ! cat go; do :; done; exit 0`))
		pieces, exits := t.watch(p)
		await(t, "the trap to be set", pieces)
		signalled(t, p, syscall.SIGUSR1, sandbox.Leader, true)
		t.release("go")
		exit := await(t, "the end", exits)
		t.same("code", exit.Code, 0)
		t.same("cause", exit.Cause, sandbox.CauseExited)
		t.same("message", exit.Message, "")
	}},
	{Name: "after the end a signal reports that nothing ran", run: func(t *trial) {
		p := t.start(shell(`exit 0`))
		t.follow(p, offsets0)
		for _, target := range []sandbox.Target{sandbox.Leader, sandbox.Group, sandbox.Tree} {
			signalled(t, p, syscall.SIGKILL, target, false)
		}
		t.same("cause", t.follow(p, offsets0).exit.Cause, sandbox.CauseExited)
	}},
	{Name: "Leader is the program alone", run: func(t *trial) {
		p, pids := family(t, `sleep 1000`)
		signalled(t, p, syscall.SIGKILL, sandbox.Leader, true)
		t.same("code", t.follow(p, offsets0).exit.Code, 137)
		t.sh(`kill -0 "$1" && kill -9 "$1"`, pids[0])
	}},
	{Name: "Group is whoever the program started", run: func(t *trial) {
		p, pids := family(t, `sleep 1000`, `sh -c "sleep 1000; :"`)
		signalled(t, p, syscall.SIGKILL, sandbox.Group, true)
		t.same("code", t.follow(p, offsets0).exit.Code, 137)
		t.ended(pids...)
	}},
	// gptme/gptme#3805
	{Name: "Tree is also who left the group", run: func(t *trial) {
		p, pids := family(t, `sleep 1000`, `setsid sleep 1000`)
		signalled(t, p, syscall.SIGKILL, sandbox.Tree, true)
		t.same("code", t.follow(p, offsets0).exit.Code, 137)
		t.ended(pids...)
	}},
}

func signalled(t *trial, p sandbox.Process, signal syscall.Signal, target sandbox.Target, want bool) {
	t.Helper()
	ran, err := p.Signal(t.ctx, int(signal), target)
	t.ok(err)
	t.same("whether the command ran", ran, want)
}

// family starts a program with children, and returns their process ids.
func family(t *trial, children ...string) (sandbox.Process, []string) {
	t.Helper()
	p := t.start(shell(strings.Join(children, " & echo $! >> pids; ") + ` & echo $! >> pids; touch ready; while :; do wait; sleep 1; done`))
	t.soon("the family to be there", func() bool { return t.exists("ready") })
	return p, strings.Fields(t.get("pids"))
}
