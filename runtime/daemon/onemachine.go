package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// oneMachine lets every session work on the same machine, each in its own scope.
type oneMachine struct {
	app, id, address string
	dir              string
	key              token.SigningKey
	dial             transport.DialFunc
	log              *slog.Logger
}

var _ driver.Machines = (*oneMachine)(nil)

// newOneMachine reads "app/machine@host:port", with "/dir" after it where the workspace is elsewhere.
func newOneMachine(c Config, s Secrets, log *slog.Logger) (*oneMachine, error) {
	name, where, at := strings.Cut(c.Machine, "@")
	app, id, named := strings.Cut(name, "/")
	if !at || !named || app == "" || id == "" {
		return nil, fmt.Errorf("machine %q: write app/machine@host:port", c.Machine)
	}
	m := &oneMachine{app: app, id: id, address: where, log: log}
	if cut := strings.IndexByte(where, '/'); cut >= 0 {
		m.address, m.dir = where[:cut], where[cut:]
	}
	var err error
	if m.key, err = signingKey(s); err != nil {
		return nil, err
	}
	if c.Transport != "" {
		if m.dial, err = transport.Parse(c.Transport); err != nil {
			return nil, fmt.Errorf("FLYFLEET_TRANSPORT: %w", err)
		}
	}
	return m, nil
}

func signingKey(s Secrets) (token.SigningKey, error) {
	if s.SigningKey == "" {
		return token.SigningKey{}, fmt.Errorf("FLYFLEET_SIGNING_KEY is not set: flyfleet keygen signing makes a key")
	}
	key, err := token.LoadSigningKey(s.SigningKey)
	if err != nil {
		return key, fmt.Errorf("FLYFLEET_SIGNING_KEY: %w", err)
	}
	return key, nil
}

// machineWait is how long one operation waits for a machine that restarts before the turn is told.
const machineWait = 10 * time.Second

// Open gives the machine as the session sees it. It connects to nothing.
func (m *oneMachine) Open(_ context.Context, claim store.Claim) (driver.Place, error) {
	scope := slots.ScopeOf(claim)
	box, err := remote.New(remote.Options{ //nolint:contextcheck // the sandbox lives as long as the claim, not as this call
		Machine: client.Options{
			Address: m.address, Dial: m.dial, Scope: scope, Fence: uint64(claim.Fence), Log: m.log,
			Tokens: client.SignWith(m.key, m.app, m.id, claim.Session.String(), scope),
		},
		Dir: m.dir, Wait: machineWait, Log: m.log,
	})
	if err != nil {
		return driver.Place{}, err
	}
	return driver.Place{Box: box, Machine: m.id, Close: box.Close}, nil
}
