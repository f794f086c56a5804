package swap

import (
	"context"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// maxRounds bounds how often a machine that changes under our hands (started by a request, overtaken by another's update)
// is looked at anew.
const maxRounds = 4

// session is one swap on its way.
type session struct {
	engine *Engine
	t      Target
	edit   edit
	out    Outcome

	asked       bool      // the control server was asked, and the swap may go ahead
	voice       voice     // how it answered
	closedUntil time.Time // when the closed door opens by itself; zero when it was not closed
	overtaken   error     // why the last update was not made
}

func (s *session) run(ctx context.Context) *stop {
	if err := s.t.check(); err != nil {
		return &stop{status: Failed, code: CodeInvalid, reason: err.Error(), err: err}
	}
	if err := s.edit.check(); err != nil {
		return &stop{status: Failed, code: CodeInvalid, reason: err.Error(), err: err}
	}
	if st := s.engine.breaker.open(s.edit.target()); st != nil {
		return st
	}
	defer s.reopen(ctx)
	for range maxRounds {
		m, st := s.look(ctx)
		if st != nil || s.out.Status == Unchanged {
			return st
		}
		if _, ok := s.edit.(metadataEdit); !ok { // metadata restarts nothing, so nobody need be asked
			if st := s.drain(ctx, m); st != nil {
				return st
			}
		}
		again := false
		err := s.engine.api.WithLease(ctx, s.t.App, s.t.Machine, func(ctx context.Context, lease flyapi.Lease) error {
			var st *stop
			again, st = s.underLease(ctx, lease)
			if st != nil {
				return st
			}
			return nil
		})
		if err != nil {
			return s.trouble(ctx, err)
		}
		if !again {
			return nil
		}
	}
	if s.overtaken != nil {
		return s.trouble(ctx, s.overtaken)
	}
	return skip(CodeUnsettled, "it changed each of the %d times it was looked at", maxRounds)
}

// look reads the machine and judges it; a transition under way is waited for.
func (s *session) look(ctx context.Context) (*flyapi.Machine, *stop) {
	api, t := s.engine.api, s.t
	m, err := api.GetMachine(ctx, t.App, t.Machine)
	if err != nil {
		return nil, s.trouble(ctx, err)
	}
	if st := s.judge(m); st != nil || s.out.Status == Unchanged {
		return m, st
	}
	if m.Settled() {
		return m, nil
	}
	werr := api.WaitMachine(ctx, t.App, t.Machine, flyapi.WaitRequest{Budget: t.SettleTimeout})
	if m, err = api.GetMachine(ctx, t.App, t.Machine); err != nil {
		return nil, s.trouble(ctx, err)
	}
	if !m.Settled() {
		if werr != nil && !flyapi.IsTimeout(werr) {
			return nil, s.trouble(ctx, werr)
		}
		return nil, skip(CodeUnsettled, "it is still %s after %s", m.State, t.SettleTimeout)
	}
	return m, s.judge(m)
}

// judge applies the decisions to what Fly says now, and notes it in the outcome.
func (s *session) judge(m *flyapi.Machine) *stop {
	s.out.Name, s.out.From, s.out.StateBefore, s.out.InstanceID = m.Name, running(m), m.State, m.InstanceID
	if st := writable(m, s.t); st != nil {
		return st
	}
	if s.edit.done(m) {
		s.out.Status, s.out.StateAfter = Unchanged, m.State
		return nil
	}
	warning, st := s.edit.allowed(m, s.t)
	if st != nil {
		return st
	}
	s.warn(warning)
	return nil
}

// underLease does the swap. again asks for another round: the machine is not as it was when we prepared it.
func (s *session) underLease(ctx context.Context, lease flyapi.Lease) (again bool, st *stop) {
	m, err := s.engine.api.GetMachine(ctx, s.t.App, s.t.Machine)
	if err != nil {
		return false, s.trouble(ctx, err)
	}
	if st := s.judge(m); st != nil || s.out.Status == Unchanged {
		return false, st
	}
	if ed, ok := s.edit.(metadataEdit); ok {
		return false, s.metadata(ctx, m, ed)
	}
	if !m.Settled() || !s.ready(m) {
		return true, nil
	}
	instance, again, st := s.post(ctx, lease, m)
	if st != nil || again {
		return again, st
	}
	after, st := s.settle(ctx, m, instance)
	if st != nil {
		return false, st
	}
	if st := s.keepCordon(ctx, lease, m, after); st != nil {
		return false, st
	}
	if st := s.judgeNew(ctx, lease, after); st != nil {
		return false, st
	}
	s.out.Status = Swapped
	return false, nil
}

// post sends the update and gives the instance id of its answer. again asks for another round, from a fresh look: the
// version was overtaken by somebody without a lease, or the answer was lost and so was the update.
func (s *session) post(ctx context.Context, lease flyapi.Lease, m *flyapi.Machine) (instance string, again bool, st *stop) {
	config, warnings, st := s.edit.apply(m, s.t)
	if st != nil {
		return "", false, st
	}
	sent, err := s.engine.api.UpdateMachine(ctx, s.t.App, s.t.Machine, request(m, config, lease))
	if err == nil {
		for _, w := range warnings {
			s.warn(w)
		}
		s.out.Written = true
		return sent.InstanceID, false, nil
	}
	if ctx.Err() != nil {
		s.out.Written = s.happened(ctx, m)
		return "", false, s.trouble(ctx, err)
	}
	if !flyapi.Unsure(err) && !flyapi.IsVersionConflict(err) {
		return "", false, s.trouble(ctx, err)
	}
	now, gerr := s.engine.api.GetMachine(ctx, s.t.App, s.t.Machine)
	if gerr != nil {
		s.out.Written = s.happened(ctx, m)
		return "", false, s.trouble(ctx, gerr)
	}
	if now.InstanceID != m.InstanceID && flyapi.ConfigCovers(now.Config(), config) {
		s.out.Written = true // the answer was lost, the update was not
		return now.InstanceID, false, nil
	}
	s.overtaken = err
	return "", true, nil
}

// happened finds out whether an update whose answer is missing was made. When that cannot be found out either, it says
// yes: nobody should rely on nothing having been written.
func (s *session) happened(ctx context.Context, before *flyapi.Machine) bool {
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reopenTimeout)
	defer cancel()
	now, err := s.engine.api.GetMachine(dctx, s.t.App, s.t.Machine)
	if err != nil {
		s.warn("whether the new version was written could not be found out")
		return true
	}
	return now.InstanceID != before.InstanceID
}

// settle waits until the new version rests and verifies that it is the new version.
func (s *session) settle(ctx context.Context, before *flyapi.Machine, instance string) (*flyapi.Machine, *stop) {
	api, t := s.engine.api, s.t
	if instance == before.InstanceID {
		instance = "" // the answer does not say; another than before must turn up
	}
	werr := api.WaitMachine(ctx, t.App, t.Machine, flyapi.WaitRequest{InstanceID: instance, Budget: t.SettleTimeout})
	if ctx.Err() != nil {
		return nil, s.trouble(ctx, werr)
	}
	// Whatever the wait said (a wait on a version that was taken back fails), the machine itself has the last word.
	after, err := api.GetMachine(ctx, t.App, t.Machine)
	if err != nil {
		return nil, s.trouble(ctx, err)
	}
	s.out.StateAfter, s.out.InstanceID = after.State, after.InstanceID
	if st := took(before, after, instance, flyapi.DigestOf(s.edit.image(before))); st != nil {
		return after, st
	}
	if !after.Settled() {
		return after, fail(CodeNotUp, "the new version is still %s after %s", after.State, t.SettleTimeout)
	}
	if !rests(before.State, after.State) && before.State == flyapi.StateStarted {
		// While it is replaced, a machine can read stopped for a moment.
		_ = api.WaitMachine(ctx, t.App, t.Machine, flyapi.WaitRequest{
			States: []string{flyapi.StateStarted}, InstanceID: instance, Budget: s.engine.opt.StartGrace,
		})
		if after, err = api.GetMachine(ctx, t.App, t.Machine); err != nil {
			return nil, s.trouble(ctx, err)
		}
		s.out.StateAfter = after.State
	}
	if !rests(before.State, after.State) {
		return after, fail(CodeNotUp, "it was %s and is %s with the new image%s; see `fly logs -a %s`", before.State, after.State, lastEvent(after), t.App)
	}
	if before.State == flyapi.StateSuspended {
		s.warn("it was suspended and is stopped now: its memory cannot outlive its image; its files stay")
	}
	for _, w := range s.edit.verify(after) {
		s.warn(w)
	}
	return after, nil
}

// keepCordon puts the cordon back as it was, should the update have changed it.
func (s *session) keepCordon(ctx context.Context, lease flyapi.Lease, before, after *flyapi.Machine) *stop {
	if before.Cordoned == after.Cordoned {
		return nil
	}
	put, word := s.engine.api.UncordonMachine, "uncordoned"
	if before.Cordoned {
		put, word = s.engine.api.CordonMachine, "cordoned"
	}
	if err := put(ctx, s.t.App, s.t.Machine, lease); err != nil {
		if st := s.trouble(ctx, err); st.code != CodeAPI {
			return st
		}
		return fail(CodeState, "it was %s before the update and could not be %s again: %v", word, word, err).because(err)
	}
	s.warn("the update had changed whether it is cordoned; it is " + word + " again")
	return nil
}

func (s *session) warn(text string) {
	if text == "" {
		return
	}
	for _, w := range s.out.Warnings {
		if w == text {
			return
		}
	}
	s.out.Warnings = append(s.out.Warnings, text)
}
