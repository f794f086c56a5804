package daemon

import (
	"errors"
	"log/slog"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// machines chooses where sessions work. closing is called after the last session was released.
func machines(c Config, s Secrets, _ *store.Store, log *slog.Logger) (places driver.Machines, closing func() error, err error) {
	switch {
	case c.Machine != "":
		one, err := newOneMachine(c, s, log)
		return one, func() error { return nil }, err
	case c.Workspaces != "":
		local := driver.NewLocal(c.Workspaces, log)
		return local, local.Close, nil
	}
	return nil, nil, errors.New("nowhere for sessions to work: set FLYFLEET_MACHINE, or FLYFLEET_WORKSPACES for this computer")
}
