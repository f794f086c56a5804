package sandboxtest

import (
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var limitCases = []Case{
	// e2b-dev/E2B#1031, daytonaio/daytona#2602
	{Name: "the computer ends a command after its Timeout, followed or not", run: timedOut},
	{Name: "what heeds no TERM after its Timeout gets KILL", run: func(t *trial) {
		c := shell(`trap '' TERM; sleep 1000 & echo $! > child; while :; do sleep 1000; done`)
		c.Timeout, c.TermGrace = t.unit(), t.unit()/2
		exit := t.follow(t.start(c), offsets0).exit
		t.same("code", exit.Code, 137)
		t.same("cause", exit.Cause, sandbox.CauseTimeout)
		t.ended(strings.TrimSpace(t.get("child")))
	}},
	{Name: "a Timeout that is not reached changes nothing", run: func(t *trial) {
		c := shell(`echo done`)
		c.Timeout = time.Hour
		r := t.exec(c)
		t.same("stdout", string(r.Stdout), "done\n")
		t.same("cause", r.Cause, sandbox.CauseExited)
	}},
	// use-agent-os/agent-os#3334
	{Name: "a Timeout does not wait for what runs in the background", run: func(t *trial) {
		c := shell(`sleep 1000 & echo $! > child; exit 0`)
		c.Timeout = time.Hour
		t.same("code", t.exec(c).Code, 0)
		t.sh(`kill -9 "$1"`, strings.TrimSpace(t.get("child")))
	}},
	{Name: "Hold stops the count of Timeout", run: func(t *trial) {
		c := shell(`sleep "$1"; echo done`, seconds(4*t.unit()))
		c.Timeout = 2 * t.unit()
		p := t.start(c)
		t.ok(p.Hold(t.ctx, "a card is open", time.Hour))
		f := t.follow(p, offsets0)
		t.same("stdout", string(f.stdout), "done\n")
		t.same("cause", f.exit.Cause, sandbox.CauseExited)
	}},
	{Name: "a Hold that is ended, or ends by itself, counts no more", run: func(t *trial) {
		for _, d := range []time.Duration{0, time.Millisecond} {
			c := sandbox.Command{Argv: []string{"sleep", "1000"}, Timeout: t.unit()}
			p := t.start(c)
			t.ok(p.Hold(t.ctx, "one", time.Hour))
			t.ok(p.Hold(t.ctx, "two", d))
			t.ok(p.Hold(t.ctx, "one", d))
			t.same("cause", t.follow(p, offsets0).exit.Cause, sandbox.CauseTimeout)
		}
	}},
	{Name: "Unattended ends what nobody follows", run: func(t *trial) {
		c := shell(`trap 'touch termed; exit 3' TERM; sleep 1000 & wait`)
		c.Unattended = t.unit()
		p := t.start(c)
		t.soon("the end of a command that nobody follows", func() bool { return t.exists("termed") })
		exit := t.follow(p, offsets0).exit
		t.same("cause", exit.Cause, sandbox.CauseUnattended)
		t.same("code", exit.Code, 3)
	}},
	{Name: "Unattended spares what somebody follows", run: func(t *trial) {
		c := shell(`sleep "$1"; echo done`, seconds(3*t.unit()))
		c.Unattended = t.unit()
		r := t.exec(c)
		t.same("stdout", string(r.Stdout), "done\n")
		t.same("cause", r.Cause, sandbox.CauseExited)
	}},
}

func timedOut(t *trial) {
	c := shell(`trap 'echo bye; touch termed; exit 3' TERM; sleep 1000 & echo $! > child; wait`)
	c.Timeout = t.unit()
	p := t.start(c)
	t.soon("the end of the command", func() bool { return t.exists("termed") })
	f := t.follow(p, offsets0)
	t.same("stdout", string(f.stdout), "bye\n")
	t.same("code", f.exit.Code, 3)
	t.same("cause", f.exit.Cause, sandbox.CauseTimeout)
	if f.exit.Message == "" {
		t.Errorf("no message says why")
	}
	t.ended(strings.TrimSpace(t.get("child")))
}

// seconds are whole ones, as every sleep takes them.
func seconds(d time.Duration) string { return strconv.Itoa(int(d.Round(time.Second) / time.Second)) }
