package engine

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Route is one machine's offer of a service port, as the proxy sees it.
type Route struct {
	Machine      string
	InternalPort int
	// Started machines take traffic; Wakeable ones would after a start, or when what is under way has ended.
	Started, Wakeable bool
	Cordoned          bool
	Autostart         bool
	// Failing says that a check is critical.
	Failing bool
}

// Routes lists the machines that serve an app's port to callers on a network. It is false when the app does not exist
// or has no flycast address on that network.
func (w *World) Routes(network, app string, port int) ([]Route, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[app]
	if a == nil || !slices.ContainsFunc(a.IPs, func(ip state.IP) bool { return ip.Type == state.IPPrivateV6 && ip.Network == network }) {
		return nil, false
	}
	var routes []Route
	for _, m := range w.machines {
		if m.App != app || m.State == state.Destroyed || m.State == state.Destroying || m.HostStatus != "ok" {
			continue
		}
		for _, s := range m.conf().Services {
			if !serves(s, port) {
				continue
			}
			routes = append(routes, Route{
				Machine: m.ID, InternalPort: s.InternalPort, Cordoned: m.Cordoned,
				Started:   m.State == state.Started,
				Wakeable:  slices.Contains([]string{state.Stopped, state.Suspended, state.Created, state.Starting, state.Restarting, state.Replacing, state.Stopping, state.Suspending}, m.State),
				Autostart: s.Autostart == nil || *s.Autostart,
				Failing:   slices.ContainsFunc(m.checks, func(c *check) bool { return c.Status == critical }),
			})
			break
		}
	}
	return routes, true
}

func serves(s machineconf.Service, port int) bool {
	return slices.ContainsFunc(s.Ports, func(p machineconf.Port) bool {
		if p.Port != nil {
			return *p.Port == port
		}
		return p.StartPort != nil && p.EndPort != nil && *p.StartPort <= port && port <= *p.EndPort
	})
}

// StartedMachines lists the ids of an app's started machines to callers on its own network. It is false when the app
// does not exist or is on another one.
func (w *World) StartedMachines(network, app string) ([]string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[app]
	if a == nil || a.Network != network {
		return nil, false
	}
	var ids []string
	for _, m := range w.machines {
		if m.App == app && m.State == state.Started {
			ids = append(ids, m.ID)
		}
	}
	return ids, true
}

// Wake brings a machine up as Fly's proxy does and returns when it is started: a cold one is started, one that is on its
// way (a boot, a swap) is waited for. Like the proxy it is refused while somebody holds a cold machine's lease.
func (w *World) Wake(ctx context.Context, app, id string) error {
	for asked := false; ; {
		m, err := w.Machine(app, id)
		if err != nil {
			return err
		}
		switch m.State {
		case state.Started:
			return nil
		case state.Stopped, state.Suspended:
			if asked {
				return precondition("machine %s went to %s instead of started", id, m.State)
			}
			asked = true
			if _, err := w.StartMachine(app, id, ""); err != nil {
				return err
			}
		case state.Failed, state.Destroying, state.Destroyed:
			return precondition("machine %s is %s", id, m.State)
		}
		if err := w.awaitSettled(ctx, app, id); err != nil {
			return err
		}
	}
}

// awaitSettled waits as long as ctx allows.
func (w *World) awaitSettled(ctx context.Context, app, id string) error {
	for {
		_, err := w.Wait(ctx, app, id, WaitInput{States: []string{Settled}})
		var refusal *Refusal
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case w.ctx.Err() != nil:
			return errors.New("the platform is closing")
		case !errors.As(err, &refusal) || refusal.Status != http.StatusRequestTimeout:
			return err
		}
	}
}
