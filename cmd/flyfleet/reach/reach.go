// Package reach finds a tenant's machine and opens the wire to it, as the person of the signing key.
package reach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Machine is a machine that can be spoken to. No call was made to it yet.
type Machine struct {
	*client.Client
	App, ID string
}

// Open finds the machine of an app, the one with the id given when the app has several, and makes a
// client in the caller's own scope. Close it.
func Open(ctx context.Context, s *settings.Settings, app, id string) (*Machine, error) {
	options, found, err := way(ctx, s, app, id)
	if err != nil {
		return nil, err
	}
	return open(options, app, found)
}

// open makes the client of a machine that was found.
func open(options client.Options, app, found string) (*Machine, error) {
	wc, err := client.New(options)
	if err != nil {
		return nil, err
	}
	return &Machine{Client: wc, App: app, ID: found}, nil
}

// way finds the machine and how to reach it.
func way(ctx context.Context, s *settings.Settings, app, id string) (client.Options, string, error) {
	api, err := s.Platform()
	if err != nil {
		return client.Options{}, "", err
	}
	defer api.Close()
	key, err := s.Key()
	if err != nil {
		return client.Options{}, "", err
	}
	dial, err := s.Dial()
	if err != nil {
		return client.Options{}, "", err
	}
	found, address, err := target(ctx, api, app, id)
	if err != nil {
		return client.Options{}, "", err
	}
	scope := settings.Scope(key)
	return client.Options{
		Address: address, Dial: dial, Scope: scope,
		Tokens: client.SignWith(key, app, found, scope, scope),
	}, found, nil
}

// target finds the machine and where it is reached: by flycast, which wakes it, unless the app has several.
func target(ctx context.Context, api *flyapi.Client, app, wanted string) (id, address string, err error) {
	all, err := api.ListMachines(ctx, app)
	if flyapi.IsNotFound(err) {
		return "", "", fmt.Errorf("there is no app %s: flyfleet machines lists what there is", app)
	}
	if err != nil {
		return "", "", err
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
		if m.ID == wanted {
			id = m.ID
		}
	}
	port := strconv.Itoa(wire.ControlPort)
	switch {
	case len(all) == 0:
		return "", "", fmt.Errorf("app %s has no machine", app)
	case wanted != "" && id == "":
		return "", "", fmt.Errorf("app %s has no machine %s, but %s", app, wanted, strings.Join(ids, ", "))
	case len(all) == 1:
		return all[0].ID, net.JoinHostPort(app+".flycast", port), nil
	case id == "":
		return "", "", fmt.Errorf("app %s has %d machines; choose one with --machine: %s", app, len(all), strings.Join(ids, ", "))
	}
	return id, net.JoinHostPort(id+".vm."+app+".internal", port), nil
}

// Failed says which machine a call failed on, and what to look at next. started tells that the exec of
// that id has a process.
func (m *Machine) Failed(err error, id string, started bool) error {
	return fmt.Errorf("machine %s of app %s: %w%s", m.ID, m.App, err, m.advice(err, id, started))
}

// Explain is Failed for a verb that works on files: errors about names speak for themselves.
func (m *Machine) Explain(err error) error {
	var named *fs.PathError
	var refused *wire.Error
	var away *sandbox.UnavailableError
	if errors.As(err, &named) || !errors.As(err, &refused) && !errors.As(err, &away) {
		return err
	}
	return m.Failed(err, "", false)
}

func (m *Machine) advice(err error, id string, started bool) string {
	var refused *wire.Error
	switch {
	case errors.As(err, &refused) && refused.Reason == wirev1.ErrorReason_ERROR_REASON_TOKEN:
		return "; is the root of " + settings.SigningKey + " in the machine's FLYFLEET_TRUST?"
	case errors.As(err, &refused) && refused.Reason == wirev1.ErrorReason_ERROR_REASON_UNKNOWN_EXEC:
		return "; flyfleet ps " + m.App + " lists yours"
	case errors.As(err, &refused), errors.Is(err, context.Canceled):
		return ""
	case started:
		return "; the command may still run: flyfleet exec " + m.App + " --attach " + id
	}
	return "; flyfleet machines shows the machine's state"
}
