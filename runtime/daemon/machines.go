package daemon

import (
	"errors"
	"log/slog"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// machines chooses where sessions work. close is called after the last session was released.
func machines(c Config, _ *store.Store, log *slog.Logger) (places driver.Machines, closing func() error, err error) {
	if c.Workspaces == "" {
		return nil, nil, errors.New("no directory for the sessions' workspaces was given")
	}
	local := driver.NewLocal(c.Workspaces, log)
	return local, local.Close, nil
}
