package remote_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
)

// wrong is a sandbox that breaks a promise once its machine has restarted.
type wrong struct {
	sandbox.Sandbox

	restarted *bool
	exec      func(w wrong, ctx context.Context, c sandbox.Command) (sandbox.Result, error)
	attach    func(w wrong, ctx context.Context, id string) (sandbox.Process, error)
	once      func(w wrong, id string) sandbox.Sandbox
	describe  func(w wrong, ctx context.Context) (sandbox.Description, error)
}

func (w wrong) In(dir string) sandbox.Sandbox {
	w.Sandbox = w.Sandbox.In(dir)
	return w
}

func (w wrong) Exec(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if w.exec == nil {
		return w.Sandbox.Exec(ctx, c)
	}
	return w.exec(w, ctx, c)
}

func (w wrong) Attach(ctx context.Context, id string) (sandbox.Process, error) {
	if w.attach == nil || !*w.restarted {
		return w.Sandbox.Attach(ctx, id)
	}
	return w.attach(w, ctx, id)
}

func (w wrong) Once(id string) sandbox.Sandbox {
	if w.once == nil || !*w.restarted {
		return w.Sandbox.Once(id)
	}
	return w.once(w, id)
}

func (w wrong) Describe(ctx context.Context) (sandbox.Description, error) {
	if w.describe == nil {
		return w.Sandbox.Describe(ctx)
	}
	return w.describe(w, ctx)
}

// ends is a process whose loss is told as an end.
type ends struct{ sandbox.Process }

func (p ends) Follow(ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
	exit, err := p.Process.Follow(ctx, from, take)
	var lost *sandbox.LostError
	if errors.As(err, &lost) {
		return sandbox.Exit{ID: lost.ID, Code: 137, Signal: 9, Cause: sandbox.CauseExited, Ends: lost.Ends}, nil
	}
	return exit, err
}

// The cases of owners and of restarts see a machine that breaks their promises, as the suite's own test holds it for all others.
func TestTheSuiteSeesAMachineThatForgets(t *testing.T) {
	m := boot(t, busybox)
	cases := map[string]sandboxtest.Case{}
	for _, c := range sandboxtest.Cases() {
		cases[c.String()] = c
	}
	for _, mutant := range []struct {
		name, fails string
		wrong       wrong
		owner       func(owner uint64) uint64 // whom the machine takes an owner for
		later       uint64                    // and all of them once it has restarted
	}{
		{name: "a lost command is run again", fails: "restart/a command that was lost is not run again under its ID, nor a new one under the epoch before", wrong: wrong{
			exec: func(w wrong, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
				r, err := w.Sandbox.Exec(ctx, c)
				var lost *sandbox.LostError
				if errors.As(err, &lost) {
					c.ID, c.IfEpoch, c.Timeout = newID(t), "", time.Second
					return w.Sandbox.Exec(ctx, c)
				}
				return r, err
			},
		}},
		{name: "the epoch stays", fails: "restart/a command that was lost is not run again under its ID, nor a new one under the epoch before", wrong: wrong{
			describe: func(w wrong, ctx context.Context) (sandbox.Description, error) {
				d, err := w.Sandbox.Describe(ctx)
				d.Epoch = "the only one"
				return d, err
			},
		}},
		{name: "ids are forgotten", fails: "restart/a call on Once repeated after a restart gives the first answer and changes nothing", wrong: wrong{
			once: func(w wrong, _ string) sandbox.Sandbox { return w.Sandbox.Once(newID(t)) },
		}},
		{name: "commands are forgotten", fails: "restart/Attach after a restart finds what ended with its output, what was lost as lost, and nothing else", wrong: wrong{
			attach: func(wrong, context.Context, string) (sandbox.Process, error) { return nil, sandbox.ErrUnknown },
		}},
		{name: "a loss is told as an end", fails: "restart/Attach after a restart finds what ended with its output, what was lost as lost, and nothing else", wrong: wrong{
			attach: func(w wrong, ctx context.Context, id string) (sandbox.Process, error) {
				p, err := w.Sandbox.Attach(ctx, id)
				return ends{p}, err
			},
		}},
		{name: "owners are not told apart", fails: "owners/once a later owner was here, whatever an earlier one asks is ErrFenced and does nothing", owner: func(uint64) uint64 { return 1 }},
		{name: "owners are forgotten", fails: "restart/an earlier owner stays ErrFenced", later: 1 << 20},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			c, is := cases[mutant.fails]
			if !is {
				t.Fatalf("the suite has no case %q", mutant.fails)
			}
			h := harness(t, mutant.name, m, nil)
			if failed, said := sandboxtest.Judge(t, h, c); failed {
				t.Fatalf("the whole backend fails %q: %s", c, said)
			}
			restarted := false
			open, owned := h.Open, h.Owned
			h.Open = func(t testing.TB) sandbox.Sandbox {
				w := mutant.wrong
				w.Sandbox, w.restarted = open(t), &restarted
				return w
			}
			var afterwards []func()
			h.Owned = func(t testing.TB) func(uint64) sandbox.Sandbox {
				of := owned(t)
				return func(owner uint64) sandbox.Sandbox {
					if mutant.owner != nil {
						owner = mutant.owner(owner)
					}
					box := &wrong{Sandbox: of(owner)}
					if mutant.later > 0 {
						afterwards = append(afterwards, func() { box.Sandbox = of(mutant.later) })
					}
					return box
				}
			}
			h.Restart = func(t testing.TB) {
				m.restart(t)
				restarted = true
				for _, do := range afterwards {
					do()
				}
			}
			h.Patience = 20 * time.Second
			failed, said := sandboxtest.Judge(t, h, c)
			if !failed {
				t.Fatalf("%q does not see it", c)
			}
			t.Log(said)
		})
	}
}
