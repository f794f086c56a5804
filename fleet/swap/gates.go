package swap

import (
	"context"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// coldTimeout is how long a machine that was started to be verified may take to stop again.
const coldTimeout = time.Minute

// judgeNew asks the gates whether the new version is good. Only a started machine is asked.
func (s *session) judgeNew(ctx context.Context, lease flyapi.Lease, after *flyapi.Machine) *stop {
	if after.State == flyapi.StateStarted {
		return s.gates(ctx)
	}
	s.out.Gate = GateCold
	if s.t.OnCold != ColdVerify {
		return nil
	}
	return s.verifyCold(ctx, lease, after)
}

// verifyCold starts a cold machine, asks the gates and stops it again, whatever they said.
func (s *session) verifyCold(ctx context.Context, lease flyapi.Lease, after *flyapi.Machine) (st *stop) {
	api, t := s.engine.api, s.t
	if err := api.StartMachine(ctx, t.App, t.Machine, lease); err != nil {
		return s.trouble(ctx, err)
	}
	defer func() {
		// Also when the caller gave up: what was cold must not stay warm because of us.
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), coldTimeout)
		defer cancel()
		err := api.StopMachine(dctx, t.App, t.Machine, lease)
		if err == nil {
			err = api.WaitMachine(dctx, t.App, t.Machine, flyapi.WaitRequest{
				States: []string{flyapi.StateStopped}, InstanceID: after.InstanceID, Budget: coldTimeout,
			})
		}
		if err == nil {
			s.out.StateAfter = flyapi.StateStopped
		} else if st == nil {
			st = fail(CodeState, "it was started to verify the new image and could not be stopped again: %v", err).because(err)
		}
	}()
	err := api.WaitMachine(ctx, t.App, t.Machine, flyapi.WaitRequest{
		States: []string{flyapi.StateStarted}, InstanceID: after.InstanceID, Budget: t.SettleTimeout,
	})
	if err != nil {
		if st := s.trouble(ctx, err); st.code != CodeAPI {
			return st
		}
		return fail(CodeNotUp, "the new image does not start: %v", err).because(err)
	}
	return s.gates(ctx)
}

func (s *session) gates(ctx context.Context) *stop {
	gctx, cancel := context.WithTimeout(ctx, s.t.GateTimeout)
	defer cancel()
	if st := s.checksGate(ctx, gctx); st != nil {
		return st
	}
	s.out.Gate = GateChecks
	if st := s.probeGate(ctx, gctx); st != nil {
		return st
	}
	if s.engine.opt.Hello == nil || s.out.Gate != GateProbe {
		return nil
	}
	if err := s.engine.opt.Hello(gctx, s.t.App, s.t.Machine); err != nil {
		if ctx.Err() != nil {
			return s.trouble(ctx, err)
		}
		return fail(CodeWire, "it says no Hello over the wire: %v", err).because(err)
	}
	s.out.Gate = GateWire
	return nil
}

// checksGate waits until Fly's checks pass.
func (s *session) checksGate(ctx, gctx context.Context) *stop {
	waiting := "Fly did not answer"
	for {
		m, err := s.engine.api.GetMachine(gctx, s.t.App, s.t.Machine)
		switch {
		case err != nil && gctx.Err() == nil:
			return s.trouble(ctx, err)
		case err == nil:
			ok, why, st := s.checked(m)
			if ok || st != nil {
				return st
			}
			waiting = why
		}
		if pause(gctx, s.engine.opt.Poll) != nil {
			if ctx.Err() != nil {
				return s.trouble(ctx, context.Cause(ctx))
			}
			return fail(CodeChecks, "%s after %s", waiting, s.t.GateTimeout)
		}
	}
}

// checked judges one look at the new version while its checks are awaited.
func (s *session) checked(m *flyapi.Machine) (ok bool, waiting string, st *stop) {
	if m.InstanceID != s.out.InstanceID {
		return false, "", fail(CodeReverted, "Fly went back to version %s (image %s) while its checks were awaited", m.InstanceID, running(m))
	}
	if m.State != flyapi.StateStarted {
		s.out.StateAfter = m.State
		return false, "", fail(CodeNotUp, "it is %s and did not stay started%s", m.State, lastEvent(m))
	}
	ok, waiting = passing(m, declaredChecks(m.Config()))
	return ok, waiting, nil
}

// probeGate asks the control server of the new version. An image without one is judged by Fly's checks alone, unless one
// answered before.
func (s *session) probeGate(ctx, gctx context.Context) *stop {
	waiting := "Fly did not answer"
	for {
		p, err := readProbe(s.engine.api.ExecMachine(gctx, s.t.App, s.t.Machine, probeCommand(), execTimeout))
		switch {
		case err != nil && gctx.Err() != nil:
			// The time is over; what was waited for is known from before.
		case err != nil && !flyapi.Unsure(err) && s.voice == absent:
			return nil // refused before the swap, and refused now
		case err != nil:
			waiting = err.Error()
		case p.voice == answered:
			if !p.said.speaksOurWire() {
				return fail(CodeWire, "its control server speaks wire %d to %d, this build speaks %d", p.said.Wire.Min, p.said.Wire.Max, wire.Version)
			}
			s.out.Gate = GateProbe
			return nil
		case p.voice == absent && s.voice == answered:
			return fail(CodeProbe, "its control server answered before the swap, and the new image has none")
		case p.voice == absent:
			return nil
		default:
			waiting = p.reason
		}
		if pause(gctx, s.engine.opt.Poll) != nil {
			if ctx.Err() != nil {
				return s.trouble(ctx, context.Cause(ctx))
			}
			return fail(CodeProbe, "no answer from its control server within %s: %s", s.t.GateTimeout, waiting)
		}
	}
}
