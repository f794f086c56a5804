package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Root is a fleet's root key pair. It stays offline; machines know its public half (Trust).
type Root struct {
	fleet string
	key   ed25519.PrivateKey
}

// NewRoot makes a fresh root key for a fleet.
func NewRoot(fleet string) (Root, error) {
	if err := checkFleet(fleet); err != nil {
		return Root{}, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Root{}, fmt.Errorf("make a root key: %w", err)
	}
	return Root{fleet: fleet, key: key}, nil
}

// ParseRoot reads the secret form, "ffroot1.<fleet>.<seed>". Its errors never quote the text.
func ParseRoot(text string) (Root, error) {
	fleet, seed, err := parseKey("ffroot1", strings.TrimSpace(text), ed25519.SeedSize)
	if err != nil {
		return Root{}, fmt.Errorf("root key: %w", err)
	}
	return Root{fleet: fleet, key: ed25519.NewKeyFromSeed(seed)}, nil
}

// Fleet is the fleet that the root rules.
func (r Root) Fleet() string { return r.fleet }

// String is the secret form. It is never logged: LogValue hides it.
func (r Root) String() string { return "ffroot1." + r.fleet + "." + encode(r.key.Seed()) }

// LogValue keeps the secret out of slog.
func (r Root) LogValue() slog.Value { return slog.StringValue("ffroot1." + r.fleet + ".(secret)") }

// Trust is the public form, an entry of FLYFLEET_TRUST.
func (r Root) Trust() string { return "fftrust1." + r.fleet + "." + encode(r.public()) }

func (r Root) public() ed25519.PublicKey {
	public, _ := r.key.Public().(ed25519.PublicKey)
	return public
}

// Delegate makes a fresh signing key with the root's statement that it may speak to the apps (exact
// names, or prefixes ending in '*') until ttl is over; ttl is at most MaxDelegation. name is
// "rt-NAME" for a runtime or "op-PERSON" for an operator, whose tokens may then only use the scopes
// op/PERSON and below.
func (r Root) Delegate(name string, apps []string, ttl time.Duration, now time.Time) (SigningKey, error) {
	if err := checkKeyName(name); err != nil {
		return SigningKey{}, err
	}
	if err := checkApps(apps); err != nil {
		return SigningKey{}, err
	}
	if ttl <= 0 || ttl > MaxDelegation {
		return SigningKey{}, fmt.Errorf("a delegation lives more than 0 and at most %d days", int(MaxDelegation.Hours()/24))
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return SigningKey{}, fmt.Errorf("make a signing key: %w", err)
	}
	claims := delegationClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: thumbprint(r.public()), Subject: name,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		Fleet: r.fleet, Apps: apps, Key: encode(public),
	}
	text, err := sign(typeDelegation, claims, r.key, nil)
	if err != nil {
		return SigningKey{}, fmt.Errorf("delegation for %s: %w", name, err)
	}
	return SigningKey{key: key, delegation: text, claims: claims}, nil
}

// parseKey reads "<prefix>.<fleet>.<base64url>". Its errors never quote the text, which may be secret.
func parseKey(prefix, text string, size int) (string, []byte, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] != prefix {
		return "", nil, fmt.Errorf("want %s.<fleet>.<key>", prefix)
	}
	if err := checkFleet(parts[1]); err != nil {
		return "", nil, err
	}
	b, err := decode(parts[2], size)
	if err != nil {
		return "", nil, fmt.Errorf("key of %s.%s: %w", prefix, parts[1], err)
	}
	return parts[1], b, nil
}
