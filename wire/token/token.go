// Package token makes and proves the tokens of the wire.
//
// A root key, kept offline, signs delegations: statements that a signing key may speak for a fleet to
// the named apps, for at most 90 days. The signing key, online, signs session tokens of at most 15
// minutes for one machine and carries its delegation in their header. A machine holds public root keys
// alone (Trust), so it has nothing to steal, and a new signing key touches no machine.
//
// Both are JWTs signed by EdDSA over Ed25519; no other algorithm is ever accepted. Text forms are in
// docs/design/architecture.md.
package token

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Caps and tolerances of the scheme.
const (
	MaxDelegation = 90 * 24 * time.Hour
	MaxSession    = 15 * time.Minute
	// Skew is how far the machine's clock may be off in either direction.
	Skew = 5 * time.Minute
	// MaxBytes bounds a token's text; longer ones are refused unread.
	MaxBytes = 8 << 10
)

// Why a token is refused. Verify's errors wrap exactly one of these.
var (
	ErrMissing    = errors.New("no token")
	ErrMalformed  = errors.New("token is malformed")
	ErrAlgorithm  = errors.New("token is not signed by EdDSA")
	ErrSignature  = errors.New("token has a wrong signature")
	ErrExpired    = errors.New("token has expired")
	ErrNotYet     = errors.New("token is from the future")
	ErrLifetime   = errors.New("token lives longer than allowed")
	ErrAudience   = errors.New("token is for another machine")
	ErrApp        = errors.New("signing key may not speak to this app")
	ErrScope      = errors.New("signing key may not use this scope")
	ErrUnknownKey = errors.New("token's root key is unknown here")
	ErrDelegation = errors.New("delegation is not signed by the root it names")
	ErrStale      = errors.New("delegation has expired")
	ErrFleet      = errors.New("delegation is for another fleet")
)

const (
	typeDelegation = "flyfleet-delegation+jwt"
	typeSession    = "flyfleet-session+jwt"
)

var (
	fleetPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	keyPattern   = regexp.MustCompile(`^(rt|op)-[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	appPattern   = regexp.MustCompile(`^[a-z0-9-]{0,63}\*?$`)
)

func checkFleet(fleet string) error {
	if !fleetPattern.MatchString(fleet) {
		return fmt.Errorf("fleet name %q: want 1 to 63 lower-case letters, digits and inner hyphens", fleet)
	}
	return nil
}

func checkKeyName(name string) error {
	if !keyPattern.MatchString(name) {
		return fmt.Errorf("key name %q: want rt-NAME for a runtime or op-PERSON for an operator, lower case", name)
	}
	return nil
}

func checkApps(apps []string) error {
	if len(apps) == 0 {
		return errors.New("a delegation names at least one app, or a prefix ending in '*'")
	}
	for _, app := range apps {
		if app == "" || !appPattern.MatchString(app) {
			return fmt.Errorf("app %q: want an app's name or a prefix ending in '*'", app)
		}
	}
	return nil
}

// matches says whether one of the patterns (exact names, or prefixes ending in '*') covers the app.
func matches(patterns []string, app string) bool {
	for _, p := range patterns {
		if prefix, wild := strings.CutSuffix(p, "*"); p == app || wild && strings.HasPrefix(app, prefix) {
			return true
		}
	}
	return false
}

// operator is the person of a key named op-<person>, empty for a runtime's key.
func operator(key string) string {
	person, ok := strings.CutPrefix(key, "op-")
	if !ok {
		return ""
	}
	return person
}

// thumbprint is the RFC 7638 thumbprint of an Ed25519 public key.
func thumbprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + encode(key) + `"}`))
	return encode(sum[:])
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decode reads exactly size bytes of strict unpadded base64url.
func decode(text string, size int) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("want %d bytes as unpadded base64url", size)
	}
	return b, nil
}

// delegationClaims is the body of a delegation.
type delegationClaims struct {
	jwt.RegisteredClaims
	Fleet string   `json:"fleet"`
	Apps  []string `json:"apps"`
	Key   string   `json:"key"`
}

// sessionClaims is the body of a session token.
type sessionClaims struct {
	jwt.RegisteredClaims
	Scope string `json:"scope"`
}

func sign(typ string, claims jwt.Claims, key ed25519.PrivateKey, header map[string]any) (string, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	t.Header["typ"] = typ
	for k, v := range header {
		t.Header[k] = v
	}
	text, err := t.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	if len(text) > MaxBytes {
		return "", fmt.Errorf("token would have %d bytes, at most %d are accepted: name fewer apps, or prefixes", len(text), MaxBytes)
	}
	return text, nil
}
