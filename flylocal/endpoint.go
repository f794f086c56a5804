package flylocal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Endpoint tells another process how to reach a running platform. It is kept in the state directory, mode 0600, while
// the platform runs.
type Endpoint struct {
	URL       string `json:"url"`
	Registry  string `json:"registry"`
	SocksAddr string `json:"socks_addr"`
	Token     string `json:"token"`
	Org       string `json:"org"`
	Level     string `json:"level"`
	PID       int    `json:"pid"`
}

// ErrNotRunning is wrapped when no platform runs on a directory.
var ErrNotRunning = errors.New("no local platform is running")

func endpointPath(dir string) string { return filepath.Join(dir, "endpoint.json") }

func (p *Platform) announce() error {
	e := Endpoint{
		URL: p.URL(), Registry: p.RegistryHost(), SocksAddr: p.SocksAddr(), Token: p.Token(), Org: p.Org(),
		Level: p.Level(), PID: os.Getpid(),
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	if err := state.WriteFile(endpointPath(p.Dir), data); err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	return p.store.Announce(fmt.Sprintf("pid %d at %s", e.PID, e.URL))
}

// ReadEndpoint answers how to reach the platform that runs on dir, or ErrNotRunning. The file of a platform that was
// killed does not count: the directory's lock decides.
func ReadEndpoint(dir string) (Endpoint, error) {
	var e Endpoint
	data, err := os.ReadFile(endpointPath(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return e, fmt.Errorf("%w on %s", ErrNotRunning, dir)
	case err != nil:
		return e, fmt.Errorf("flylocal: %w", err)
	}
	held, err := state.Held(dir)
	if err != nil {
		return e, fmt.Errorf("flylocal: %w", err)
	}
	if !held {
		return e, fmt.Errorf("%w on %s (the last one was killed)", ErrNotRunning, dir)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fmt.Errorf("flylocal: %s: %w", endpointPath(dir), err)
	}
	return e, nil
}
