// Package settings builds the parts of a command from the environment, which is the program's only configuration.
package settings

import (
	"fmt"
	"os"
	"os/user"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// Names of the variables; docs/design/architecture.md says what each holds.
const (
	Token      = "FLY_API_TOKEN"
	Org        = "FLY_ORG"
	FlapsURL   = "FLY_FLAPS_BASE_URL"
	GraphQLURL = "FLY_API_BASE_URL"
	Registry   = "FLY_REGISTRY_HOST"
	SigningKey = "FLYFLEET_SIGNING_KEY"
	Transport  = "FLYFLEET_TRANSPORT"
)

const hint = `for the platform on this computer run eval "$(flyfleet local env)"`

// Settings reads variables through Get when a part is asked for, so that a command needs only those it uses.
type Settings struct {
	Get func(string) string
}

// FromProcess reads the process's own environment.
func FromProcess() *Settings { return &Settings{Get: os.Getenv} }

// Platform is a client of the platform. It makes no call.
func (s *Settings) Platform() (*flyapi.Client, error) {
	cfg := flyapi.ConfigFromEnv(s.Get)
	if cfg.Token == "" {
		return nil, fmt.Errorf("%s is not set: put a token of the organization there, or %s", Token, hint)
	}
	return flyapi.New(cfg)
}

// Key is the key that signs the caller's tokens.
func (s *Settings) Key() (token.SigningKey, error) {
	value := s.Get(SigningKey)
	if value == "" {
		return token.SigningKey{}, fmt.Errorf("%s is not set: flyfleet keygen signing makes a key; %s", SigningKey, hint)
	}
	key, err := token.LoadSigningKey(value)
	if err != nil {
		return key, fmt.Errorf("%s: %w", SigningKey, err)
	}
	return key, nil
}

// Dial reaches machines on the runtime's private network.
func (s *Settings) Dial() (transport.DialFunc, error) {
	value := s.Get(Transport)
	if value == "" {
		return nil, fmt.Errorf("%s is not set, so private names lead nowhere: inside the private network set it to direct; %s", Transport, hint)
	}
	dial, err := transport.Parse(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Transport, err)
	}
	return dial, nil
}

// Scope is the caller's own scope on machines: people act beside the runtime, never in its scopes.
func Scope(key token.SigningKey) string {
	if p := key.Person(); p != "" {
		return "op/" + p
	}
	if u, err := user.Current(); err == nil && wire.CheckScope("op/"+u.Username) == nil {
		return "op/" + u.Username
	}
	return "op/unknown"
}

// Wired tells whether a transport and a key are configured, so that machines can be spoken to.
func (s *Settings) Wired() bool { return s.Get(Transport) != "" && s.Get(SigningKey) != "" }
