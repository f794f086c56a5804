package flylocal

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/netdoor"
)

// road shows the engine to the SOCKS door.
type road struct{ world *engine.World }

func (r road) Services(_ context.Context, network, app string, port int) ([]netdoor.Service, error) {
	routes, ok := r.world.Routes(network, app, port)
	if !ok {
		return nil, fmt.Errorf("%s.flycast on network %s: %w", app, network, netdoor.ErrNoName)
	}
	out := make([]netdoor.Service, len(routes))
	for i, route := range routes {
		out[i] = netdoor.Service(route)
	}
	return out, nil
}

func (r road) Machines(_ context.Context, network, app string) ([]string, error) {
	ids, ok := r.world.StartedMachines(network, app)
	if !ok {
		return nil, fmt.Errorf("%s.internal on network %s: %w", app, network, netdoor.ErrNoName)
	}
	slices.Sort(ids)
	return ids, nil
}

func (r road) Wake(ctx context.Context, app, machine string) error {
	return r.world.Wake(ctx, app, machine)
}

func (r road) Dial(ctx context.Context, app, machine string, port int) (net.Conn, error) {
	return r.world.Dial(ctx, app, machine, port)
}
