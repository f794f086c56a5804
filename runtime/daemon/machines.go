package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// machines chooses where sessions work. closing is called after the last session was released.
func machines(ctx context.Context, c Config, s Secrets, db *store.Store, log *slog.Logger) (places driver.Machines, closing func() error, err error) {
	switch {
	case c.Machine != "":
		one, err := newOneMachine(c, s, log)
		return one, func() error { return nil }, err
	case c.Workspaces != "":
		local := driver.NewLocal(c.Workspaces, log)
		return local, local.Close, nil
	case s.FlyToken != "":
		return fleetMachines(ctx, c, s, db, log)
	}
	return nil, nil, errors.New("nowhere for sessions to work: set FLY_API_TOKEN for the machines of a fleet, FLYFLEET_MACHINE for one machine, " +
		"or FLYFLEET_WORKSPACES for this computer")
}

// fleetMachines gives each session the machine of its tenant, and lets idle machines rest.
func fleetMachines(ctx context.Context, c Config, s Secrets, db *store.Store, log *slog.Logger) (driver.Machines, func() error, error) {
	key, err := signingKey(s)
	if err != nil {
		return nil, nil, err
	}
	if c.Transport == "" {
		return nil, nil, errors.New("FLYFLEET_TRANSPORT is not set, so machines cannot be reached: inside the private network set it to direct")
	}
	dial, err := transport.Parse(c.Transport)
	if err != nil {
		return nil, nil, fmt.Errorf("FLYFLEET_TRANSPORT: %w", err)
	}
	api, err := flyapi.New(flyapi.Config{FlapsURL: c.FlapsURL, GraphQLURL: c.GraphQLURL, Token: s.FlyToken, Org: c.Org}) //nolint:contextcheck // makes no call
	if err != nil {
		return nil, nil, err
	}
	cold := slots.ColdSuspend
	if c.Cold == "stop" {
		cold = slots.ColdStop
	}
	fleet, err := slots.New(slots.Options{
		Store: db, API: api, Key: key, Dial: dial, Fleet: c.Fleet, Pool: c.Pool, PerMachine: c.PerMachine,
		IdleAfter: c.IdleAfter, Cold: cold, Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	resting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var rests sync.WaitGroup
	rests.Go(func() { fleet.Run(resting) })
	return fleet, func() error {
		stop()
		rests.Wait()
		return fleet.Close()
	}, nil
}
