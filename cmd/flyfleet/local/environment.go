package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/keygen"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// Variable is one environment variable for clients of the local platform.
type Variable struct {
	Name, Value string
}

// fleetName is the fleet of the local root key.
const fleetName = "local"

// Life of the local signing key, and when a fresh one is made.
const (
	keyLife  = 90 * 24 * time.Hour
	keyRenew = 24 * time.Hour
)

// Environment is what clients of the platform at e need. It makes what is missing under dir: keys (files of mode 0600, whose
// content is in no variable), and Terraform's configuration for the provider in binDir.
func Environment(dir, binDir string, e Endpoint) ([]Variable, error) {
	root, err := localRoot(dir)
	if err != nil {
		return nil, err
	}
	key, err := localKey(dir, root, time.Now())
	if err != nil {
		return nil, err
	}
	rc, err := writeTerraformConfig(filepath.Join(dir, "terraform"), binDir)
	if err != nil {
		return nil, err
	}
	return []Variable{
		{"FLY_API_TOKEN", e.Token},
		{"FLY_ORG", e.Org},
		{"FLY_FLAPS_BASE_URL", "http://" + e.API},
		{"FLY_API_BASE_URL", "http://" + e.API},
		{"FLY_REGISTRY_HOST", e.API},
		{"FLYFLEET_SIGNING_KEY", key},
		{"FLYFLEET_TRANSPORT", "socks5://" + e.Door + "?network=default"},
		{"TF_VAR_flyfleet_trust", root.Trust()},
		{"TF_CLI_CONFIG_FILE", rc},
		{ProviderVariable, filepath.Join(binDir, providerBinary)},
		{"CHECKPOINT_DISABLE", "1"},
	}, nil
}

// localRoot keeps one root key, so that machines made yesterday still trust today's keys.
func localRoot(dir string) (token.Root, error) {
	path := filepath.Join(dir, "keys", "root.key")
	root, err := keygen.ReadRoot(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	if root, err = token.NewRoot(fleetName); err != nil {
		return root, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return root, fmt.Errorf("folder for the local keys: %w", err)
	}
	_, err = keygen.Write(path, root.String())
	return root, err
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// operator is the person's name as a key's name takes it.
func operator() string {
	name := "me"
	if u, err := user.Current(); err == nil {
		name = notInName.ReplaceAllString(strings.ToLower(u.Username), "-")
	}
	if name = strings.Trim(name, "-"); name == "" {
		return "me"
	}
	return name[:min(len(name), 32)]
}

// localKey keeps one signing key of the person, renewed before it ends, and returns its file.
func localKey(dir string, root token.Root, now time.Time) (string, error) {
	name := "op-" + operator()
	path := filepath.Join(dir, "keys", name+".key")
	if key, err := token.LoadSigningKey(path); err == nil && key.ExpiresAt().Sub(now) > keyRenew {
		return path, nil
	}
	key, err := root.Delegate(name, []string{"*"}, keyLife, now)
	if err != nil {
		return "", fmt.Errorf("local signing key: %w", err)
	}
	if err := replace(path, []byte(key.String()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("local signing key: %w", err)
	}
	return path, nil
}

// export writes variables as lines for a POSIX shell.
func export(w io.Writer, all []Variable) {
	for _, v := range all {
		fmt.Fprintf(w, "export %s='%s'\n", v.Name, strings.ReplaceAll(v.Value, "'", `'\''`))
	}
}
