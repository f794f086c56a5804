package daemon

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/upstream"
)

// wayBack is how commands reach the runtime, and what behind it. Nil: they have none.
type wayBack struct {
	upstreams *upstream.Set
	keys      *machinetoken.Keys
	url       string
}

// newWayBack reads the configuration. What is missing or wrong is said before anything runs.
func newWayBack(c Config, s Secrets) (*wayBack, error) {
	if c.Upstreams == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.Upstreams)
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_UPSTREAMS: %w", err)
	}
	w := &wayBack{}
	if w.upstreams, err = upstream.Parse(text); err != nil {
		return nil, fmt.Errorf("FLYFLEET_UPSTREAMS: %s: %w", c.Upstreams, err)
	}
	if s.TokenKeys == "" {
		return nil, errors.New("FLYFLEET_TOKEN_KEYS is not set, so commands get no tokens: openssl rand -base64 32 makes a key; the same for all replicas")
	}
	if w.keys, err = machinetoken.ParseKeys(s.TokenKeys); err != nil {
		return nil, fmt.Errorf("FLYFLEET_TOKEN_KEYS: %w", err)
	}
	if name := w.upstreams.Credential(); name != "" && s.SealingKeys == "" {
		return nil, fmt.Errorf("FLYFLEET_SEALING_KEYS is not set, so no submission can bring the credential that upstream %q needs", name)
	}
	if w.url, err = callbackURL(c.CallbackURL); err != nil {
		return nil, err
	}
	return w, nil
}

func callbackURL(text string) (string, error) {
	u, err := url.Parse(text)
	if text == "" || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("FLYFLEET_CALLBACK_URL is not set, or is no URL: write where commands on machines reach the runtime, such as https://runtime.example")
	}
	return strings.TrimSuffix(text, "/") + strings.TrimSuffix(gateway.ProxyPath, "/"), nil
}

// driver is the driver's part.
func (w *wayBack) driver() *driver.WayBack {
	if w == nil {
		return nil
	}
	return &driver.WayBack{URL: w.url, Keys: w.keys}
}

// gateway is the gateway's.
func (w *wayBack) gateway() gateway.ProxyOptions {
	if w == nil {
		return gateway.ProxyOptions{}
	}
	return gateway.ProxyOptions{Keys: w.keys, Upstreams: w.upstreams}
}
