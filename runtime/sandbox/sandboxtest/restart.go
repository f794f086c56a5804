package sandboxtest

import (
	"errors"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var restartCases = []Case{
	{Name: "a command that runs when the computer restarts ends as a LostError, after all of it that is kept", Needs: Restart, run: func(t *trial) {
		p, ended := begin(t)
		t.harness.Restart(t)
		f := await(t, "the end of Follow", ended)
		f.holds(t, p.ID())
		t.same("how often it ran", t.get("log"), "ran\n")
	}},
	{Name: "an Exec that is under way ends as a LostError", Needs: Restart, run: func(t *trial) {
		c := endless()
		c.ID = freshID()
		ended := make(chan error, 1)
		go func() {
			_, err := t.box.Exec(t.ctx, c)
			ended <- err
		}()
		t.soon("the command runs", func() bool { return t.exists("runs") })
		t.harness.Restart(t)
		isLost(t, "Exec", await(t, "the end of Exec", ended), c.ID)
		t.same("how often it ran", t.get("log"), "ran\n")
	}},
	{Name: "Attach after a restart finds what ended with its output, what was lost as lost, and nothing else", Needs: Restart, run: func(t *trial) {
		ended := t.start(shell(`echo out; echo error >&2; exit 7`))
		t.same("code", t.follow(ended, offsets0).exit.Code, 7)
		running, lost := begin(t)
		t.harness.Restart(t)
		await(t, "the end of Follow", lost)

		found, err := t.box.Attach(t.ctx, ended.ID())
		t.ok(err)
		got := t.follow(found, offsets0)
		t.same("code after the restart", got.exit.Code, 7)
		t.same("output after the restart", string(got.stdout)+string(got.stderr), "out\nerror\n")
		found, err = t.box.Attach(t.ctx, running.ID())
		t.ok(err)
		f := followLost(t, found, make(chan struct{}, 1))
		f.holds(t, running.ID())
		_, err = t.box.Attach(t.ctx, freshID())
		t.is(err, sandbox.ErrUnknown)
	}},
	{Name: "a command that was lost is not run again under its ID, nor a new one under the epoch before", Needs: Restart, run: func(t *trial) {
		before, err := t.box.Describe(t.ctx)
		t.ok(err)
		c := endless()
		c.ID = freshID()
		t.start(c)
		t.soon("the command runs", func() bool { return t.exists("runs") })
		t.harness.Restart(t)
		after, err := t.box.Describe(t.ctx)
		t.ok(err)
		if after.Epoch == before.Epoch {
			t.Errorf("the epoch is %q before and after", after.Epoch)
		}
		_, err = t.box.Exec(t.ctx, c)
		isLost(t, "Exec", err, c.ID)
		if p, err := t.box.Start(t.ctx, c); err != nil {
			isLost(t, "Start", err, c.ID)
		} else {
			_, err = p.Follow(t.ctx, offsets0, func(sandbox.Output) error { return nil })
			isLost(t, "Follow of what Start found", err, c.ID)
		}
		fresh := shell(`echo ran >> log`)
		fresh.ID, fresh.IfEpoch = freshID(), before.Epoch
		_, err = t.box.Exec(t.ctx, fresh)
		isLost(t, "Exec under the epoch before", err, fresh.ID)
		t.same("how often it ran", t.get("log"), "ran\n")
		fresh.ID, fresh.IfEpoch = freshID(), after.Epoch
		t.same("code under the present epoch", t.exec(fresh).Code, 0)
		t.same("how often it ran then", t.get("log"), "ran\nran\n")
	}},
	{Name: "a call on Once repeated after a restart gives the first answer and changes nothing", Needs: Restart, run: func(t *trial) {
		onceEach(t, t, t, func() { t.harness.Restart(t) })
	}},
	{Name: "an Exec on Once that was lost stays lost and is not run again", Needs: Restart, run: func(t *trial) {
		id, ended := freshID(), make(chan error, 1)
		go func() {
			_, err := t.box.Once(id).Exec(t.ctx, endless())
			ended <- err
		}()
		t.soon("the command runs", func() bool { return t.exists("runs") })
		t.harness.Restart(t)
		isLost(t, "Exec", await(t, "the end of Exec", ended), id)
		_, err := t.box.Once(id).Exec(t.ctx, endless())
		isLost(t, "the repeated Exec", err, id)
		t.same("how often it ran", t.get("log"), "ran\n")
	}},
	{Name: "a forbidden id stays forbidden", Needs: Restart, run: func(t *trial) {
		c := sandbox.Command{ID: freshID(), Argv: []string{"touch", "ran"}}
		is, err := t.box.Forbid(t.ctx, c.ID)
		t.ok(err)
		t.same("whether it is forbidden", is, true)
		t.harness.Restart(t)
		_, err = t.box.Exec(t.ctx, c)
		t.is(err, sandbox.ErrForbidden)
		t.there("ran", false)
	}},
	{Name: "an earlier owner stays ErrFenced", Needs: Restart, run: func(t *trial) {
		owner := t.harness.Owned(t)
		first, second := t.as(owner(1)), t.as(owner(2))
		first.put("f", "of the first")
		second.put("f", "of the second")
		t.harness.Restart(t)
		fencedOut(t, first.box)
		second.holds("f", "of the second")
		second.same("what is there", second.list("."), []string{"f"})
	}},
}

// endless is a command that notes in log that it ran, then makes runs, says so, and goes on until it is ended.
func endless() sandbox.Command {
	return shell(`echo ran >> log; touch runs; echo begun; exec sleep 100000`)
}

// begin starts an endless command and returns once what it says is kept; the channel has how it was followed.
func begin(t *trial) (sandbox.Process, <-chan lostFollow) {
	t.Helper()
	p, ended, wrote := t.start(endless()), make(chan lostFollow, 1), make(chan struct{}, 1)
	go func() { ended <- followLost(t, p, wrote) }()
	await(t, "its first output", wrote)
	return p, ended
}

// isLost holds an error to be a LostError about a command.
func isLost(t *trial, what string, err error, id string) {
	t.Helper()
	var lost *sandbox.LostError
	if !errors.As(err, &lost) || lost.ID != id {
		t.Fatalf("%s: got error %v, want a *LostError about %s", what, err, id)
	}
}

// lostFollow is a Follow of an endless command.
type lostFollow struct {
	text string
	err  error
}

// followLost follows from any goroutine; wrote hears of the first output.
func followLost(t *trial, p sandbox.Process, wrote chan<- struct{}) lostFollow {
	var text strings.Builder
	_, err := p.Follow(t.ctx, offsets0, func(o sandbox.Output) error {
		text.Write(o.Data)
		select {
		case wrote <- struct{}{}:
		default:
		}
		return nil
	})
	return lostFollow{text.String(), err}
}

func (f lostFollow) holds(t *trial, id string) {
	t.Helper()
	isLost(t, "Follow", f.err, id)
	t.same("its output", f.text, "begun\n")
	var lost *sandbox.LostError
	if errors.As(f.err, &lost) {
		t.same("where its output ends", lost.Ends, sandbox.Offsets{Stdout: int64(len("begun\n"))})
	}
}
