package flyapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/superfly/fly-go/flaps"
	"github.com/superfly/fly-go/tokens"
)

// The endpoints of the real platform, used where a Config leaves a field empty.
const (
	DefaultFlapsURL     = "https://api.machines.dev"
	DefaultGraphQLURL   = "https://api.fly.io"
	DefaultRegistryHost = "registry.fly.io"
)

// Config says where the platform is and who asks. The zero value of each field but Token is usable.
type Config struct {
	// FlapsURL is the base of the Machines API (scheme and host; a path is ignored, as fly-go does).
	FlapsURL string
	// GraphQLURL is the base of the GraphQL API; "/graphql" is added unless the path ends in it.
	GraphQLURL string
	// RegistryHost is host[:port] of the image registry. The client only hands it on (see Client.RegistryHost).
	RegistryHost string
	// Token is a Fly token or a comma-separated list of them; macaroons are sent as Fly wants them.
	Token string
	// Org is the slug of the organization that org-wide lists and creates speak of.
	Org string
	// UserAgent is sent with each request; empty means "flyfleet".
	UserAgent string
	// Log gets one line a request at debug level, never bodies nor headers. Nil discards.
	Log *slog.Logger
	// Transport carries the requests; nil means an own one with a 5 s dial limit.
	Transport http.RoundTripper
	// Pace says how fast to ask; the zero value is the documented rate.
	Pace Pace
}

// ConfigFromEnv reads FLY_API_TOKEN (or FLY_ACCESS_TOKEN), FLY_ORG, FLY_FLAPS_BASE_URL, FLY_API_BASE_URL and
// FLY_REGISTRY_HOST through get, which is os.Getenv in a main.
func ConfigFromEnv(get func(string) string) Config {
	token := get("FLY_API_TOKEN")
	if token == "" {
		token = get("FLY_ACCESS_TOKEN")
	}
	return Config{
		FlapsURL:     get("FLY_FLAPS_BASE_URL"),
		GraphQLURL:   get("FLY_API_BASE_URL"),
		RegistryHost: get("FLY_REGISTRY_HOST"),
		Token:        token,
		Org:          get("FLY_ORG"),
	}
}

// Client talks to one platform as one caller. Make it with New.
type Client struct {
	flaps    *url.URL
	graphql  *url.URL
	registry string
	org      string
	agent    string
	token    string
	tokens   *tokens.Tokens
	log      *slog.Logger
	door     *door
	http     *http.Client
	typed    *flaps.Client
	owned    *http.Transport // nil when the caller brought the transport

	writeMu sync.Mutex
	onWrite []func(Write)
}

// New checks the configuration and builds a client. It makes no call.
func New(cfg Config) (*Client, error) {
	if strings.TrimSpace(cfg.Token) == "" {
		return nil, errors.New("no Fly token: set FLY_API_TOKEN (a token from `fly tokens create org`; for the local platform: eval \"$(flyfleet local env)\")")
	}
	flapsURL, err := endpoint("Machines API URL (FLY_FLAPS_BASE_URL)", cfg.FlapsURL, DefaultFlapsURL)
	if err != nil {
		return nil, err
	}
	flapsURL.Path = ""
	graphqlURL, err := endpoint("GraphQL URL (FLY_API_BASE_URL)", cfg.GraphQLURL, DefaultGraphQLURL)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(graphqlURL.Path, "/graphql") {
		graphqlURL.Path = strings.TrimSuffix(graphqlURL.Path, "/") + "/graphql"
	}
	c := &Client{
		flaps:    flapsURL,
		graphql:  graphqlURL,
		registry: cfg.RegistryHost,
		org:      cfg.Org,
		agent:    cfg.UserAgent,
		token:    cfg.Token,
		tokens:   tokens.Parse(cfg.Token),
		log:      cfg.Log,
	}
	if c.registry == "" {
		c.registry = DefaultRegistryHost
	}
	if c.agent == "" {
		c.agent = "flyfleet"
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	base := cfg.Transport
	if base == nil {
		c.owned = newTransport()
		base = c.owned
	}
	c.door = &door{base: base, flaps: flapsURL, pace: newPacer(cfg.Pace), log: c.log}
	c.http = &http.Client{Transport: c.door}
	// fly-go keeps no context from here; it takes one per call.
	c.typed, err = flaps.NewWithOptions(context.Background(), flaps.NewClientOpts{UserAgent: c.agent, Tokens: c.tokens, Transport: c.door})
	if err != nil {
		return nil, fmt.Errorf("set up the fly-go client: %w", err)
	}
	return c, nil
}

// Close drops idle connections of a transport that New made. Calls in flight are not touched.
func (c *Client) Close() {
	if c.owned != nil {
		c.owned.CloseIdleConnections()
	}
}

// Org is the organization's slug of the Config.
func (c *Client) Org() string { return c.org }

// RegistryHost is host[:port] of the image registry.
func (c *Client) RegistryHost() string { return c.registry }

// FlapsURL is the base of the Machines API that the client asks, without a trailing slash.
func (c *Client) FlapsURL() string { return c.flaps.String() }

// Token is what the Config held, for parts that authenticate elsewhere on the same account (the registry).
func (c *Client) Token() string { return c.token }

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        64,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     60 * time.Second,
	}
}

func endpoint(what, value, fallback string) (*url.URL, error) {
	if value == "" {
		value = fallback
	}
	u, err := url.Parse(value)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, value, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%s %q: want http://host[:port] or https://host[:port]", what, value)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}
