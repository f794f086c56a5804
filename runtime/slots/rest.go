package slots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

const (
	// mostAPass bounds the machines that one pass looks at.
	mostAPass = 64
	// doorFor is how long a machine takes no commands once it was found idle, if we die before it is stopped.
	doorFor     = 30 * time.Second
	probeTime   = 10 * time.Second
	restBudget  = 2 * time.Minute
	endRestTime = 15 * time.Second
)

// controlServer is where every image of ours keeps it.
const controlServer = "/opt/flyfleet/bin/flyfleet-controlserver"

// Rest is one pass over what is idle: slots of sessions that have had nothing to do for Options.SlotIdle are given back, and
// machines on which nothing has gone on for Options.IdleAfter are made cold. It says how many became cold. A machine that
// cannot be asked what runs on it is left alone.
func (s *Slots) Rest(ctx context.Context) (int, error) {
	var failed []error
	if _, err := s.store.ReleaseIdleSlots(ctx, s.options.SlotIdle); err != nil {
		failed = append(failed, err)
	}
	if s.options.IdleAfter <= 0 && s.options.Pool == "" {
		return 0, errors.Join(failed...)
	}
	list, err := s.directory.recent(ctx)
	if err != nil {
		return 0, errors.Join(append(failed, err)...)
	}
	failed = append(failed, s.remark(ctx, list))
	if s.options.IdleAfter <= 0 {
		return 0, errors.Join(failed...)
	}
	idle, err := s.store.IdleMachines(ctx, s.options.IdleAfter, mostAPass)
	failed = append(failed, err)
	cold := 0
	for _, m := range idle {
		if r, there := find(list, m.ID); there && !r.Gone() && r.State != flyapi.StateStarted {
			failed = append(failed, s.store.EndRest(ctx, m.ID)) // cold already: asked again when idle once more
			continue
		}
		done, err := s.rest(ctx, m)
		if done {
			cold++
		}
		if held := new(flyapi.LeaseHeldError); err != nil && !errors.As(err, &held) {
			failed = append(failed, fmt.Errorf("machine %s of app %s: %w", m.ID, m.App, err))
		}
	}
	return cold, errors.Join(failed...)
}

// rest makes one machine cold under its lease, if nothing runs there.
func (s *Slots) rest(ctx context.Context, m store.Machine) (cold bool, err error) {
	err = s.api.WithLease(ctx, m.App, m.ID, func(ctx context.Context, lease flyapi.Lease) error {
		live, err := s.api.GetMachine(ctx, m.App, m.ID)
		if err != nil {
			return err
		}
		if live.State != flyapi.StateStarted {
			return s.store.EndRest(ctx, m.ID)
		}
		began, err := s.store.BeginRest(ctx, m.ID, s.options.IdleAfter)
		if err != nil || !began {
			return err
		}
		sent, err := s.cool(ctx, m, lease)
		cold = sent && err == nil
		if sent && err != nil {
			// The machine may still go down: the mark stays until somebody with the lease has seen it settled (wake).
			return err
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endRestTime)
		defer cancel()
		return errors.Join(err, s.store.EndRest(end, m.ID))
	})
	if cold {
		s.directory.forget()
		s.roads.forget(m.ID, m.Address)
		s.log.InfoContext(ctx, "an idle machine is cold now", "machine", m.ID, "app", m.App, "tenant", m.Tenant)
	}
	return cold, err
}

// cool suspends or stops the machine when nothing runs on it, and waits until it rests. sent says whether it was asked to.
func (s *Slots) cool(ctx context.Context, m store.Machine, lease flyapi.Lease) (sent bool, err error) {
	if s.options.Cold == ColdSuspend {
		// Nothing is lost with a command that starts at this moment: it goes on when the machine wakes.
		said, err := s.probe(ctx, m, "")
		if err != nil || said.Running > 0 {
			return false, err
		}
		err = s.api.SuspendMachine(ctx, m.App, m.ID, lease)
		if err == nil || !refused(err) {
			return true, errors.Join(err, s.settled(ctx, m))
		}
		s.log.InfoContext(ctx, "a machine cannot be suspended and is stopped", "machine", m.ID, "app", m.App, "error", err)
	}
	said, err := s.probe(ctx, m, "closed")
	if err != nil || said.Quiesce != "closed" {
		return false, err
	}
	err = s.api.StopMachine(ctx, m.App, m.ID, lease)
	if err != nil && refused(err) {
		_, resumeErr := s.probe(ctx, m, "resumed")
		return false, errors.Join(err, resumeErr)
	}
	return true, errors.Join(err, s.settled(ctx, m))
}

// refused says that the platform answered, and did nothing.
func refused(err error) bool {
	var e *flyapi.Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500
}

func (s *Slots) settled(ctx context.Context, m store.Machine) error {
	return s.api.WaitMachine(ctx, m.App, m.ID, flyapi.WaitRequest{
		States: []string{flyapi.StateStopped, flyapi.StateSuspended}, Budget: restBudget,
	})
}

// status is what a control server's probe says (docs/design/architecture.md).
type status struct {
	State   string `json:"state"`
	Running int    `json:"running"`
	Quiesce string `json:"quiesce"`
}

// probe asks the control server through the platform, which reaches it also where this runtime cannot, and sees commands of
// every scope. want "closed" closes its door to new commands if nothing runs, "resumed" opens it.
func (s *Slots) probe(ctx context.Context, m store.Machine, want string) (status, error) {
	command := []string{controlServer, "probe", "--json"}
	switch want {
	case "closed":
		command = append(command, "--quiesce", doorFor.String())
	case "resumed":
		command = append(command, "--resume")
	}
	r, err := s.api.ExecMachine(ctx, m.App, m.ID, command, probeTime)
	if err != nil {
		return status{}, err
	}
	var said status
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if r.ExitCode != 0 || json.Unmarshal([]byte(lines[len(lines)-1]), &said) != nil || said.State == "" {
		return status{}, fmt.Errorf("its control server does not say what runs (probe exit %d), so it is left alone", r.ExitCode)
	}
	return said, nil
}
