//go:build linux

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
// between the answer true and the end of the quiesce, not even after a crash of this server.
func (s *Server) Quiesce(d time.Duration) (bool, error) {
	closed, err := s.door.quiesce(d, s.noteQuiesce)
	s.log.Info("quiesce asked", "closed", closed, "for", d.String(), "error", err)
	return closed, err
}

// Resume opens the door again.
func (s *Server) Resume() error {
	err := s.noteQuiesce(time.Time{})
	if err == nil {
		s.door.resume()
	}
	s.log.Info("resume asked", "error", err)
	return err
}

// noteQuiesce leaves word to the next server under this keeper.
func (s *Server) noteQuiesce(until time.Time) error {
	path := s.quiesceFile()
	if until.IsZero() {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget a quiesce: %w", err)
		}
		return nil
	}
	tmp := path + ".tmp"
	err := os.WriteFile(tmp, []byte(s.keeper.Epoch()+" "+until.Format(time.RFC3339Nano)), 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("remember a quiesce: %w", err)
	}
	return nil
}

// recallQuiesce is what the server before this one left: zero when it left nothing, or another keeper's.
func (s *Server) recallQuiesce() (time.Time, error) {
	b, err := os.ReadFile(s.quiesceFile())
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("recall a quiesce: %w", err)
	}
	epoch, text, _ := strings.Cut(string(b), " ")
	until, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || epoch != s.keeper.Epoch() {
		return time.Time{}, nil //nolint:nilerr // of another life, or torn by its end
	}
	return until, nil
}

func (s *Server) quiesceFile() string { return filepath.Join(s.options.Run, "quiesce") }

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

// Probe answers one question of the local socket.
func (s *Server) Probe(q probe.Question) (probe.Answer, error) {
	quiesce, resume := time.Duration(q.QuiesceMS)*time.Millisecond, q.Resume
	if quiesce > 0 && resume {
		return probe.Answer{}, errors.New("quiesce and resume exclude each other")
	}
	asked := ""
	switch {
	case resume:
		if err := s.Resume(); err != nil {
			return probe.Answer{}, err
		}
		asked = "resumed"
	case quiesce > 0:
		closed, err := s.Quiesce(quiesce)
		if err != nil {
			return probe.Answer{}, err
		}
		asked = "busy"
		if closed {
			asked = "closed"
		}
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
