package slots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// greet asks the machine who it is, patiently: connecting wakes a cold one, and a boot takes its time. The first failure, and
// now and then another, makes it ask the platform whether waiting is of use.
func (s *Slots) greet(ctx context.Context, m store.Machine, as client.Options) error {
	if _, err := as.Tokens.Token(ctx); err != nil {
		return fmt.Errorf("machine %s of app %s: %w", m.ID, m.App, err)
	}
	c, err := client.New(as)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.options.Boot)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		hello, err := c.Hello(bounded)
		if err == nil {
			return s.greeted(ctx, m, hello)
		}
		if wire.ReasonOf(err) == wirev1.ErrorReason_ERROR_REASON_VERSION {
			return fmt.Errorf("%w: %w", sandbox.ErrUnsupported, err)
		}
		if stop := s.judge(bounded, m, err); stop != nil {
			return stop
		}
		select {
		case <-time.After(wait):
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.relearn(ctx, m)
			return unavailable(soon, err, "machine %s of app %s does not answer", m.ID, m.App)
		}
	}
}

// relearn brings the row of a machine that does not answer up to date: its address changes when its app gets another machine.
func (s *Slots) relearn(ctx context.Context, m store.Machine) {
	list, err := s.directory.recent(ctx)
	if err == nil {
		err = s.learn(ctx, list, m.Tenant)
	}
	if err != nil {
		s.log.InfoContext(ctx, "the address of a machine that does not answer is not looked up", "machine", m.ID, "error", err)
	}
}

// greeted keeps the machine's epoch, for those who look at rows.
func (s *Slots) greeted(ctx context.Context, m store.Machine, hello *wirev1.HelloResponse) error {
	if hello.GetEpoch() == m.Epoch {
		return nil
	}
	m.Epoch = hello.GetEpoch()
	if err := s.store.PutMachine(ctx, m, s.options.PerMachine); err != nil {
		return s.databaseFailed(ctx, err)
	}
	return nil
}

// judge looks at a machine that does not answer through the platform's eyes. Nil: go on waiting.
func (s *Slots) judge(ctx context.Context, m store.Machine, cause error) error {
	if wire.ReasonOf(cause) == wirev1.ErrorReason_ERROR_REASON_STOPPING {
		return nil
	}
	live, err := s.api.GetMachine(ctx, m.App, m.ID)
	switch {
	case flyapi.IsNotFound(err):
		return s.confirmGone(ctx, m)
	case err != nil:
		s.log.DebugContext(ctx, "the platform does not tell about a machine that does not answer", "machine", m.ID, "error", err)
		return nil
	case live.Gone():
		return s.gone(ctx, m)
	case !live.Reachable():
		return unavailable(5*time.Second, nil, "the host of machine %s is %s", m.ID, live.HostStatus)
	case wire.ReasonOf(cause) == wirev1.ErrorReason_ERROR_REASON_TOKEN:
		return unavailable(5*time.Second, cause, "machine %s refuses the runtime's token", m.ID)
	case (live.State == flyapi.StateStopped || live.State == flyapi.StateSuspended) && !wakes(m.Address):
		if err := s.api.StartMachine(ctx, m.App, m.ID, flyapi.Lease{}); err != nil {
			s.log.InfoContext(ctx, "a cold machine is not started yet", "machine", m.ID, "error", err)
		}
	}
	return nil
}

// confirmGone asks a second source before a slot is lost for good: a 404 also is what a wrong token may get.
func (s *Slots) confirmGone(ctx context.Context, m store.Machine) error {
	list, err := s.directory.fresh(ctx)
	if err != nil {
		return unavailable(soon, err, "the platform does not know machine %s, and does not list machines", m.ID)
	}
	if r, there := find(list, m.ID); there && !r.Gone() || len(list.ErrorRegions) > 0 {
		return unavailable(soon, nil, "the platform is not of one mind about machine %s", m.ID)
	}
	return s.gone(ctx, m)
}

func (s *Slots) gone(ctx context.Context, m store.Machine) error {
	if err := s.store.Retire(ctx, m.ID); err != nil {
		return s.databaseFailed(ctx, err)
	}
	return &goneError{machine: m.ID}
}

// wake takes the mark of a rest away when nobody is at it any more: who rests a machine holds its lease.
func (s *Slots) wake(ctx context.Context, m store.Machine) error {
	err := s.api.WithLease(ctx, m.App, m.ID, func(ctx context.Context, _ flyapi.Lease) error {
		live, err := s.api.GetMachine(ctx, m.App, m.ID)
		if err != nil {
			return err
		}
		if !live.Settled() {
			return errors.New("it is " + live.State)
		}
		return s.store.EndRest(ctx, m.ID)
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return unavailable(soon, err, "machine %s is on its way to rest", m.ID)
	}
	return nil
}
