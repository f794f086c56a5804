// Package keygen is the verb that makes the keys of a fleet: an offline root, and signing keys that it delegates to.
package keygen

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// Command is `flyfleet keygen`.
type Command struct {
	Root    Root    `cmd:"" help:"Make a root key. Keep it offline; machines get only its public half."`
	Signing Signing `cmd:"" help:"Make a signing key and let a root delegate to it."`
}

// Root is `flyfleet keygen root`.
type Root struct {
	Fleet string `required:"" help:"Name of the fleet that the root is for."`
	Out   string `default:"flyfleet-root.key" help:"File for the secret key, made with mode 0600; never overwritten."`
	Print bool   `help:"Print the secret key and write no file."`
}

type rootResult struct {
	Fleet  string `json:"fleet"`
	Trust  string `json:"trust"`
	File   string `json:"file,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Run makes the key. The trust entry, which is public, goes to stdout.
func (r *Root) Run(c *console.Console) error {
	root, err := token.NewRoot(r.Fleet)
	if err != nil {
		return err
	}
	result := rootResult{Fleet: r.Fleet, Trust: root.Trust()}
	if r.Print {
		result.Secret = root.String()
	} else if result.File, err = Write(r.Out, root.String()); err != nil {
		return err
	}
	return c.Result(result, func(w io.Writer) {
		if r.Print {
			fmt.Fprintln(w, result.Secret)
			return
		}
		fmt.Fprintln(w, result.Trust)
		c.Note("The secret root key is in %s: keep it offline. The line above is public: it belongs into FLYFLEET_TRUST of every machine.", result.File)
	})
}

// Signing is `flyfleet keygen signing`.
type Signing struct {
	Root  string        `required:"" help:"File with the root key."`
	Name  string        `required:"" help:"Name of the key: rt-… for a runtime, op-… for a person."`
	Apps  []string      `required:"" help:"Apps the key may reach: exact names, or prefixes that end in *."`
	TTL   time.Duration `default:"720h" help:"Life of the delegation, 90 days at most."`
	Out   string        `help:"File for the secret key, made with mode 0600; never overwritten. Default: flyfleet-<name>.key"`
	Print bool          `help:"Print the secret key and write no file."`
}

type signingResult struct {
	Name    string    `json:"name"`
	Fleet   string    `json:"fleet"`
	Apps    []string  `json:"apps"`
	Expires time.Time `json:"expires"`
	File    string    `json:"file,omitempty"`
	Secret  string    `json:"secret,omitempty"`
}

// Run makes the key.
func (s *Signing) Run(c *console.Console) error {
	root, err := ReadRoot(s.Root)
	if err != nil {
		return err
	}
	key, err := root.Delegate(s.Name, s.Apps, s.TTL, time.Now())
	if err != nil {
		return err
	}
	result := signingResult{Name: s.Name, Fleet: root.Fleet(), Apps: s.Apps, Expires: key.ExpiresAt().UTC()}
	out := s.Out
	if out == "" {
		out = "flyfleet-" + s.Name + ".key"
	}
	if s.Print {
		result.Secret = key.String()
	} else if result.File, err = Write(out, key.String()); err != nil {
		return err
	}
	return c.Result(result, func(w io.Writer) {
		if s.Print {
			fmt.Fprintln(w, result.Secret)
			return
		}
		fmt.Fprintln(w, result.File)
		c.Note("Key %s of fleet %s for %s, until %s. Use it with FLYFLEET_SIGNING_KEY=%s",
			s.Name, result.Fleet, strings.Join(s.Apps, ", "), result.Expires.Format(time.RFC3339), result.File)
	})
}

// ReadRoot reads a root key from its file, which only the owner may be able to read.
func ReadRoot(path string) (token.Root, error) {
	st, err := os.Stat(path)
	if err != nil {
		return token.Root{}, fmt.Errorf("root key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return token.Root{}, fmt.Errorf("root key %s has mode %04o: others can read it; run chmod 600 %s", path, st.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return token.Root{}, fmt.Errorf("root key: %w", err)
	}
	root, err := token.ParseRoot(strings.TrimSpace(string(text)))
	if err != nil {
		return token.Root{}, fmt.Errorf("root key %s: %w", path, err)
	}
	return root, nil
}

// Write puts a secret into a new file of mode 0600 and returns its absolute path.
func Write(path, secret string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(abs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s exists already and is not overwritten: choose another file with --out, or remove it", abs)
	}
	if err != nil {
		return "", fmt.Errorf("file for the secret key: %w", err)
	}
	if _, err := f.WriteString(secret + "\n"); err != nil {
		f.Close()
		return "", fmt.Errorf("writing the secret key to %s: %w", abs, err)
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("writing the secret key to %s: %w", abs, err)
	}
	return abs, nil
}
