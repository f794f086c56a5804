package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

var secretName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Secrets lists an app's secrets by name, with the version of the set. A minVersion that is not reached yet is
// refused.
func (w *World) Secrets(app string, minVersion uint64) ([]state.Secret, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return nil, 0, err
	}
	if err := checkSecretsVersion(a, minVersion); err != nil {
		return nil, 0, err
	}
	return a.Secrets, a.SecretsVersion, nil
}

// Assumption: Fly's text for a version that is not there yet is not known; its status, 412, is.
func checkSecretsVersion(a *state.App, minVersion uint64) error {
	if minVersion > a.SecretsVersion {
		return precondition("secrets version %d is not available yet, the current one is %d", minVersion, a.SecretsVersion)
	}
	return nil
}

// SetSecrets sets and (for a nil value) removes secrets in one step and answers the new set and its version. To remove
// what is not there succeeds: flyctl does that to learn the version.
func (w *World) SetSecrets(app string, values map[string]*string) ([]state.Secret, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, err := w.app(app)
	if err != nil {
		return nil, 0, err
	}
	for name := range values {
		if !secretName.MatchString(name) {
			return nil, 0, refuse(http.StatusUnprocessableEntity, "Validation failed: secret name %q may hold letters, digits and underscores", name)
		}
	}
	set := slices.Clone(a.Secrets)
	now := w.now()
	for name, value := range values {
		i := slices.IndexFunc(set, func(s state.Secret) bool { return s.Name == name })
		switch {
		case value == nil && i >= 0:
			set = slices.Delete(set, i, i+1)
		case value == nil:
		case i >= 0:
			set[i].Value, set[i].UpdatedAt, set[i].Digest = *value, now, secretDigest(a, *value)
		default:
			set = append(set, state.Secret{Name: name, Value: *value, Digest: secretDigest(a, *value), CreatedAt: now, UpdatedAt: now})
		}
	}
	slices.SortFunc(set, func(a, b state.Secret) int { return strings.Compare(a.Name, b.Name) })
	a.Secrets = set
	a.SecretsVersion++
	w.saveApp(a)
	return set, a.SecretsVersion, nil
}

// secretDigest tells equal values of one app apart from others, and cannot be computed by a client: Fly's
// algorithm is not public, so none may be relied on.
func secretDigest(a *state.App, value string) string {
	sum := sha256.Sum256([]byte(a.ID + "\x00" + value))
	return hex.EncodeToString(sum[:16])
}
