package token

import (
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// SigningKey signs session tokens under a delegation. It is secret and short-lived; machines never
// hear of it before they see its first token.
type SigningKey struct {
	key        ed25519.PrivateKey
	delegation string
	claims     delegationClaims
}

// ParseSigningKey reads the secret form, "ffsign1.<seed>.<delegation>". It proves that the seed is the
// delegated key's, not that a root signed the delegation: machines do that. Its errors never quote
// the text.
func ParseSigningKey(text string) (SigningKey, error) {
	text = strings.TrimSpace(text)
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 || parts[0] != "ffsign1" || len(text) > MaxBytes {
		return SigningKey{}, fmt.Errorf("signing key: want ffsign1.<seed>.<delegation>; flyfleet keygen makes one")
	}
	seed, err := decode(parts[1], ed25519.SeedSize)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key: seed: %w", err)
	}
	k := SigningKey{key: ed25519.NewKeyFromSeed(seed), delegation: parts[2]}
	unproven, _, err := jwt.NewParser().ParseUnverified(parts[2], &k.claims)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key: delegation is no JWT")
	}
	if _, err := decode(parts[2][strings.LastIndexByte(parts[2], '.')+1:], ed25519.SignatureSize); err != nil || unproven.Header["typ"] != typeDelegation {
		return SigningKey{}, fmt.Errorf("signing key: delegation is cut off, or is another kind of token")
	}
	public, _ := k.key.Public().(ed25519.PublicKey)
	if k.claims.Key != encode(public) {
		return SigningKey{}, fmt.Errorf("signing key: its delegation is for another key")
	}
	if k.claims.ExpiresAt == nil || checkKeyName(k.claims.Subject) != nil || checkApps(k.claims.Apps) != nil {
		return SigningKey{}, fmt.Errorf("signing key: delegation lacks exp, a key name or apps")
	}
	return k, nil
}

// LoadSigningKey reads FLYFLEET_SIGNING_KEY: a signing key, or the absolute path of a file that holds
// one and that only its owner may read.
func LoadSigningKey(value string) (SigningKey, error) {
	if value == "" {
		return SigningKey{}, fmt.Errorf("no signing key given: set FLYFLEET_SIGNING_KEY to one, or to the absolute path of a file that holds one (flyfleet keygen makes them)")
	}
	if !filepath.IsAbs(value) {
		return ParseSigningKey(value)
	}
	info, err := os.Stat(value)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return SigningKey{}, fmt.Errorf("signing key file %s has mode %04o and others may read it: run chmod 600 %s", value, mode, value)
	}
	if info.Size() > MaxBytes {
		return SigningKey{}, fmt.Errorf("signing key file %s is larger than a key", value)
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return SigningKey{}, fmt.Errorf("signing key file: %w", err)
	}
	return ParseSigningKey(string(text))
}

// String is the secret form. It is never logged: LogValue hides it.
func (k SigningKey) String() string { return "ffsign1." + encode(k.key.Seed()) + "." + k.delegation }

// LogValue keeps the secret out of slog.
func (k SigningKey) LogValue() slog.Value { return slog.StringValue(k.claims.Subject + " (secret)") }

// Name is the key's name: rt-NAME or op-PERSON.
func (k SigningKey) Name() string { return k.claims.Subject }

// Person is the operator that an op-PERSON key belongs to; empty for a runtime's key.
func (k SigningKey) Person() string { return operator(k.claims.Subject) }

// Fleet is the fleet that the key speaks for.
func (k SigningKey) Fleet() string { return k.claims.Fleet }

// Apps are the app names and prefixes that the key may speak to.
func (k SigningKey) Apps() []string { return append([]string(nil), k.claims.Apps...) }

// ExpiresAt is the end of the delegation.
func (k SigningKey) ExpiresAt() time.Time { return k.claims.ExpiresAt.Time }

// Sign makes a session token for one machine, subject (whose session it is, for logs) and scope; ttl
// is at most MaxSession and is shortened to the delegation's end. What the machine would refuse is an
// error here.
func (k SigningKey) Sign(app, machine, subject, scope string, ttl time.Duration, now time.Time) (string, error) {
	if k.key == nil {
		return "", fmt.Errorf("sign a session token: no signing key")
	}
	if app == "" || machine == "" || strings.ContainsRune(app, '/') || strings.ContainsRune(machine, '/') {
		return "", fmt.Errorf("sign a session token: want an app and a machine id")
	}
	if err := wire.CheckScope(scope); err != nil {
		return "", fmt.Errorf("sign a session token: %w", err)
	}
	if err := allowed(k.claims, app, scope); err != nil {
		return "", fmt.Errorf("sign a session token: %w", err)
	}
	if ttl <= 0 || ttl > MaxSession {
		return "", fmt.Errorf("sign a session token: it lives more than 0 and at most %d minutes", int(MaxSession.Minutes()))
	}
	if !now.Before(k.ExpiresAt()) {
		return "", fmt.Errorf("sign a session token: %w on %s: make a fresh signing key with flyfleet keygen", ErrStale, k.ExpiresAt().UTC().Format(time.RFC3339))
	}
	expiry := now.Add(ttl)
	if expiry.After(k.ExpiresAt()) {
		expiry = k.ExpiresAt()
	}
	return sign(typeSession, sessionClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: subject, Audience: jwt.ClaimStrings{app + "/" + machine},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expiry),
		},
		Scope: scope,
	}, k.key, map[string]any{"dlg": k.delegation})
}

// allowed holds a delegation's limits against what a token asks for.
func allowed(d delegationClaims, app, scope string) error {
	if !matches(d.Apps, app) {
		return fmt.Errorf("%w: %s is delegated for %s, not for %s", ErrApp, d.Subject, strings.Join(d.Apps, ", "), app)
	}
	if person := operator(d.Subject); person != "" && !wire.OperatorScope(scope, person) {
		return fmt.Errorf("%w: %s may use op/%s and scopes below it", ErrScope, d.Subject, person)
	}
	return nil
}
