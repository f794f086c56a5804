package guest

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/procs"
)

// freeze stops every process but the init, at one instant: the kernel signals all of them before any can fork.
// Processes that were stopped already are remembered, and left so by thaw.
func (g *guest) freeze() error {
	return g.procs.While(true, func() error {
		if g.frozen {
			return nil
		}
		list, err := procs.List()
		if err != nil {
			return err
		}
		g.stoppedBefore = map[int]bool{}
		for _, p := range list {
			if p.State == 'T' {
				g.stoppedBefore[p.PID] = true
			}
		}
		if err := syscall.Kill(-1, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop all processes: %w", err)
		}
		g.frozen = true
		return nil
	})
}

func (g *guest) thaw() error {
	return g.procs.While(false, func() error {
		if !g.frozen {
			return nil
		}
		g.frozen = false
		list, err := procs.List()
		if err != nil {
			return err
		}
		for _, p := range list {
			if p.PID != 1 && !g.stoppedBefore[p.PID] {
				_ = syscall.Kill(p.PID, syscall.SIGCONT) // it may have ended
			}
		}
		return nil
	})
}

// listProcesses answers OpPs; more rows than this are cut, for the reply has a bound.
func listProcesses() ([]procs.Process, error) {
	list, err := procs.List()
	if err != nil {
		return nil, err
	}
	const most = 4096
	list = list[:min(len(list), most)]
	procs.AddSockets(list)
	return list, nil
}
