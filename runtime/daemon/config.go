package daemon

import (
	"errors"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/telemetry"
)

// Config of a replica: flags, each with a variable of the environment. What is secret is in Secrets.
type Config struct {
	Listen    string        `env:"FLYFLEET_LISTEN" default:"[::]:8090" help:"Address of the HTTP listener."`
	Sessions  int           `env:"FLYFLEET_SESSIONS" default:"1000" help:"How many sessions this replica runs at once."`
	DrainTime time.Duration `env:"FLYFLEET_DRAIN_TIME" default:"30s" help:"How long a stop waits for calls whose outcome would become unknown."`
	TTL       time.Duration `name:"lease-ttl" env:"FLYFLEET_LEASE_TTL" default:"15s" help:"How long after its last beat a replica counts as dead. The same for all replicas."`
	TenantCap int           `env:"FLYFLEET_TENANT_CAP" default:"0" help:"How many sessions of one tenant run at once; 0 is no limit."`

	TenantRate    float64 `env:"FLYFLEET_TENANT_RATE" default:"50" help:"Requests a second that one tenant may make of one replica."`
	TenantBurst   int     `env:"FLYFLEET_TENANT_BURST" default:"100" help:"How many of them at once."`
	TenantStreams int     `env:"FLYFLEET_TENANT_STREAMS" default:"200" help:"Streams of events that one tenant may have open at one replica."`

	CardTime time.Duration `env:"FLYFLEET_CARD_TIME" default:"168h" help:"How long a person has to decide."`

	KeepOutput   time.Duration `env:"FLYFLEET_KEEP_OUTPUT" default:"0" help:"How long the output of a command is kept after its end; 0 is for ever. The same for all replicas."`
	KeepSessions time.Duration `env:"FLYFLEET_KEEP_SESSIONS" default:"0" help:"How long a session is kept that nothing happens to; 0 is for ever. The same for all replicas."`

	Agents   string `env:"FLYFLEET_AGENTS" help:"JSON file of agents; without it there is one agent, whatever the name of a session's."`
	Provider string `env:"FLYFLEET_MODEL_PROVIDER" default:"scripted" help:"scripted, anthropic or openai; with a colon and a name for another server that speaks the same API."`
	Model    string `env:"FLYFLEET_MODEL" help:"The provider's name of the model."`
	ModelURL string `name:"model-url" env:"FLYFLEET_MODEL_URL" help:"Base URL of the provider's API."`
	Script   string `env:"FLYFLEET_MODEL_SCRIPT" help:"File of the scripted model; without it each input is its own script."`
	System   string `env:"FLYFLEET_SYSTEM" help:"System prompt of every agent that names none."`

	Upstreams   string `env:"FLYFLEET_UPSTREAMS" help:"JSON file of what commands may reach on the way back; without it they have none."`
	CallbackURL string `name:"callback-url" env:"FLYFLEET_CALLBACK_URL" help:"Base URL at which commands on machines reach the runtime."`

	Workspaces string `env:"FLYFLEET_WORKSPACES" help:"Directory below which sessions work on this computer, without isolation: for trying, with one replica."`
	Machine    string `env:"FLYFLEET_MACHINE" help:"One machine for all sessions, app/machine@host:port: for trying."`
	Transport  string `env:"FLYFLEET_TRANSPORT" help:"How the private network is reached: direct or socks5://…"`
	Fleet      string `env:"FLYFLEET_FLEET" help:"Fleet whose machines are used."`
	Org        string `env:"FLY_ORG" help:"Organization of the fleet's apps."`
	FlapsURL   string `env:"FLY_FLAPS_BASE_URL" help:"Base URL of the Machines API; without it Fly's."`
	GraphQLURL string `name:"graphql-url" env:"FLY_API_BASE_URL" help:"Base URL of the GraphQL API; without it Fly's."`

	Pool       string        `env:"FLYFLEET_POOL" help:"Warm pool from which a tenant without a machine gets one."`
	PerMachine int           `env:"FLYFLEET_SESSIONS_PER_MACHINE" default:"8" help:"How many sessions may have a place on one machine."`
	IdleAfter  time.Duration `env:"FLYFLEET_IDLE_AFTER" default:"10m" help:"How long nothing has gone on on a machine before it is made cold; 0 is never."`
	Cold       string        `env:"FLYFLEET_COLD" default:"suspend" enum:"suspend,stop" help:"How an idle machine rests: suspend or stop."`
}

// Secrets of a replica come by the environment only: command lines can be read by others.
type Secrets struct {
	// DatabaseURL of Postgres, FLYFLEET_DATABASE_URL; not through a pooler in transaction mode.
	DatabaseURL string
	// SigningKey signs tokens for machines, FLYFLEET_SIGNING_KEY: a key, or the absolute path of a 0600 file with one.
	SigningKey string
	// ModelKey is the provider's API key, FLYFLEET_MODEL_KEY.
	ModelKey string
	// SealingKeys seal credentials, FLYFLEET_SEALING_KEYS: id:base64 of 32 bytes, the newest first, or a file's path.
	SealingKeys string
	// CollectorHeaders are the headers of requests to a collector of spans, OTEL_EXPORTER_OTLP_HEADERS and …_TRACES_HEADERS.
	CollectorHeaders []string
	// TokenKeys make the tokens of commands, FLYFLEET_TOKEN_KEYS: 32 bytes or more in base64, the newest first, or a file's path.
	TokenKeys string
	// FlyToken is the platform's API token, FLY_API_TOKEN.
	FlyToken string
}

// SecretsFrom reads them.
func SecretsFrom(get func(string) string) Secrets {
	return Secrets{
		DatabaseURL: get("FLYFLEET_DATABASE_URL"), SigningKey: get("FLYFLEET_SIGNING_KEY"), ModelKey: get("FLYFLEET_MODEL_KEY"),
		SealingKeys: get("FLYFLEET_SEALING_KEYS"), FlyToken: get("FLY_API_TOKEN"), TokenKeys: get("FLYFLEET_TOKEN_KEYS"),
		CollectorHeaders: []string{get("OTEL_EXPORTER_OTLP_HEADERS"), get("OTEL_EXPORTER_OTLP_TRACES_HEADERS")},
	}
}

// Database is the database's URL, or what to do about there being none.
func (s Secrets) Database() (string, error) {
	if s.DatabaseURL == "" {
		return "", errors.New("FLYFLEET_DATABASE_URL is not set: postgres://user:password@host/database")
	}
	return s.DatabaseURL, nil
}

// known are the values that are masked wherever they show up.
func (s Secrets) known() []string {
	all := []string{s.DatabaseURL, s.SigningKey, s.ModelKey, s.SealingKeys, s.TokenKeys, s.FlyToken}
	for _, headers := range s.CollectorHeaders {
		all = append(all, telemetry.HeaderValues(headers)...)
	}
	return all
}
