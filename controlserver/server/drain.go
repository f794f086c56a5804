package server

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/probe"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Status is what the probe tells.
type Status struct {
	State         wirev1.MachineState
	Epoch         string
	Spool         wirev1.SpoolKind
	Running       int
	QuiescedUntil time.Time
}

// Status is the machine's state now.
func (s *Server) Status() Status {
	state, running, until := s.door.state()
	return Status{State: state, Epoch: s.keeper.Epoch(), Spool: s.options.Kind, Running: running, QuiescedUntil: until}
}

// Quiesce closes the door to new execs for a while, if none runs; one step, so that nothing starts
// between the answer true and the end of the quiesce.
func (s *Server) Quiesce(d time.Duration) bool {
	closed, until := s.door.quiesce(d)
	s.log.Info("quiesce asked", "closed", closed, "until", until)
	return closed
}

// Resume opens the door again.
func (s *Server) Resume() {
	s.door.resume()
	s.log.Info("door opened")
}

// Drain ends the machine's work: no new execs, TERM to the running ones, KILL to those left when grace
// is over. It returns when every end is on record and sent to whoever follows, or with ctx.
func (s *Server) Drain(ctx context.Context, grace time.Duration) {
	s.door.stop()
	_, running, _ := s.door.state()
	s.log.Info("stopping", "running", running, "grace", grace.String())
	s.signalAll(unix.SIGTERM)
	soft, cancel := context.WithTimeout(ctx, grace)
	idle := s.door.waitIdle(soft)
	cancel()
	if !idle {
		s.signalAll(unix.SIGKILL)
		idle = s.door.waitIdle(ctx)
	}
	s.streams.wait(ctx)
	// Who left an exec's tree, or outlived it, ends with the machine.
	if err := s.keeper.Sweep(int(unix.SIGKILL)); err != nil {
		s.log.Error("processes are left over", "error", err)
	}
	s.log.Info("stopped", "all_ended", idle)
}

func (s *Server) signalAll(signal unix.Signal) {
	for _, e := range s.execs.running() {
		_, err := s.keeper.Signal(keeper.Shot{
			ID: e.id, Signal: int(signal), Target: wirev1.SignalTarget_SIGNAL_TARGET_TREE,
			Cause: wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING,
		})
		if err != nil {
			s.log.Error("exec was not signalled", "exec", e.id, "signal", signal.String(), "error", err)
		}
	}
}

// Close ends the keeper. Call it after the HTTP server is down.
func (s *Server) Close() error { return s.keeper.Close() }

// Probe answers one question of the local socket.
func (s *Server) Probe(q probe.Question) (probe.Answer, error) {
	quiesce, resume := time.Duration(q.QuiesceMS)*time.Millisecond, q.Resume
	if quiesce > 0 && resume {
		return probe.Answer{}, errors.New("quiesce and resume exclude each other")
	}
	asked := ""
	switch {
	case resume:
		s.Resume()
		asked = "resumed"
	case quiesce > 0 && s.Quiesce(quiesce):
		asked = "closed"
	case quiesce > 0:
		asked = "busy"
	}
	st := s.Status()
	a := probe.Answer{Build: wire.Build, State: StateName(st.State), Epoch: st.Epoch, Spool: "durable", Running: st.Running, Quiesce: asked}
	a.Wire.Min, a.Wire.Max = wire.Version, wire.Version
	if st.Spool == wirev1.SpoolKind_SPOOL_KIND_EPHEMERAL {
		a.Spool = "ephemeral"
	}
	if !st.QuiescedUntil.IsZero() {
		a.QuiescedUntil = st.QuiescedUntil.UTC().Format(time.RFC3339Nano)
	}
	return a, nil
}
