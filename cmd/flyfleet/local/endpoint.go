package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// Endpoint is where a platform answers, and to what token. Unlike the platform's own record it is kept after the
// platform's end, so that the next start comes back under the same addresses and shells stay configured.
type Endpoint struct {
	// API is host:port of the Machines API, GraphQL and the registry; Door is host:port of the SOCKS5 door.
	API  string `json:"api"`
	Door string `json:"door"`
	// Level is the runner and its isolation, such as "namespace/mapped".
	Level string `json:"level"`
	Org   string `json:"org"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

// DefaultDir is where the state of the local platform is kept when nobody says otherwise.
func DefaultDir() (string, error) {
	if dir := os.Getenv("FLYFLEET_LOCAL_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "flyfleet", "local"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory to keep the local platform's state in; use --dir: %w", err)
	}
	return filepath.Join(home, ".local", "state", "flyfleet", "local"), nil
}

func stateDir(dir string) (string, error) {
	if dir == "" {
		return DefaultDir()
	}
	return filepath.Abs(dir)
}

func lastFile(dir string) string { return filepath.Join(dir, "last-endpoint.json") }

// readLast is the last platform of dir; found is false when there never was one.
func readLast(dir string) (e Endpoint, found bool, err error) {
	b, err := os.ReadFile(lastFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err != nil {
		return e, false, fmt.Errorf("state of the local platform: %s: %w", lastFile(dir), err)
	}
	return e, true, nil
}

// writeLast keeps e; the file holds the platform's token, so it is its owner's alone.
func writeLast(dir string, e Endpoint) error {
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	if err := replace(lastFile(dir), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("state of the local platform: %w", err)
	}
	return nil
}

// running is the platform that runs on dir now.
func running(dir string) (Endpoint, bool, error) {
	e, err := flylocal.ReadEndpoint(dir)
	if errors.Is(err, flylocal.ErrNotRunning) {
		return Endpoint{}, false, nil
	}
	if err != nil {
		return Endpoint{}, false, err
	}
	return Endpoint{API: e.Registry, Door: e.SocksAddr, Level: e.Level, Org: e.Org, Token: e.Token, PID: e.PID}, true, nil
}

// Describe is one line for a person: what runs, and at which level of isolation.
func (e Endpoint) Describe() string {
	note := ""
	switch e.Level {
	case "process":
		note = " (no isolation: machines are plain processes of yours)"
	case "none":
		note = " (machines have no processes)"
	}
	return fmt.Sprintf("runner %s%s, API and registry on http://%s, private network through socks5://%s", e.Level, note, e.API, e.Door)
}
