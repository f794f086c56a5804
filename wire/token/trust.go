package token

import (
	"crypto/ed25519"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// Trust is the set of root keys a machine believes.
type Trust struct {
	roots map[string]trustedRoot // by thumbprint
}

type trustedRoot struct {
	fleet string
	key   ed25519.PublicKey
}

// Claims is what a proven token says.
type Claims struct {
	// Key is the name of the signing key, rt-NAME or op-PERSON.
	Key string
	// Operator is the person behind an op- key, empty for a runtime.
	Operator string
	Fleet    string
	Subject  string
	Scope    string
	App      string
	Machine  string
	IssuedAt time.Time
	Expires  time.Time

	// delegated is how long the signing key's delegation lives.
	delegated time.Time
}

// ParseTrust reads FLYFLEET_TRUST: entries "fftrust1.<fleet>.<public key>", separated by commas, at
// least one. A secret key given by mistake is refused without being quoted.
func ParseTrust(text string) (Trust, error) {
	t := Trust{roots: map[string]trustedRoot{}}
	for i, entry := range strings.Split(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if strings.HasPrefix(entry, "ffroot1.") || strings.HasPrefix(entry, "ffsign1.") {
			return Trust{}, fmt.Errorf("trust entry %d is a secret key: a machine holds public ones only (fftrust1.…); treat that key as leaked", i+1)
		}
		fleet, key, err := parseKey("fftrust1", entry, ed25519.PublicKeySize)
		if err != nil {
			return Trust{}, fmt.Errorf("trust entry %d: %w", i+1, err)
		}
		t.roots[thumbprint(key)] = trustedRoot{fleet: fleet, key: key}
	}
	if len(t.roots) == 0 {
		return Trust{}, errors.New("no trust entry: want fftrust1.<fleet>.<public key>, which flyfleet keygen prints")
	}
	return t, nil
}

// Verify proves a session token for one machine. The error wraps exactly one of the package's reasons
// and never quotes the token; it may be shown to the caller.
func (t Trust) Verify(text, app, machine string, now time.Time) (Claims, error) {
	if text == "" {
		return Claims{}, ErrMissing
	}
	if len(text) > MaxBytes {
		return Claims{}, fmt.Errorf("%w: more than %d bytes", ErrMalformed, MaxBytes)
	}
	header, err := peek(text)
	if err != nil {
		return Claims{}, err
	}
	delegation, key, err := t.delegation(header, now)
	if err != nil {
		return Claims{}, err
	}
	var session sessionClaims
	if err := parse(text, typeSession, &session, key, now); err != nil {
		return Claims{}, err
	}
	if err := checkLife(&session.RegisteredClaims, MaxSession); err != nil {
		return Claims{}, err
	}
	want := app + "/" + machine
	if len(session.Audience) != 1 || subtle.ConstantTimeCompare([]byte(session.Audience[0]), []byte(want)) != 1 {
		return Claims{}, fmt.Errorf("%w: its audience is %s", ErrAudience, strings.Join(session.Audience, ", "))
	}
	if err := wire.CheckScope(session.Scope); err != nil {
		return Claims{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := allowed(delegation, app, session.Scope); err != nil {
		return Claims{}, err
	}
	return Claims{
		Key: delegation.Subject, Operator: operator(delegation.Subject), Fleet: delegation.Fleet, Subject: session.Subject,
		Scope: session.Scope, App: app, Machine: machine,
		IssuedAt: session.IssuedAt.Time, Expires: session.ExpiresAt.Time,
		delegated: delegation.ExpiresAt.Time,
	}, nil
}

// delegation proves the delegation in a token's header and returns it with the delegated key.
func (t Trust) delegation(text string, now time.Time) (delegationClaims, ed25519.PublicKey, error) {
	var d delegationClaims
	if _, _, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(text, &d); err != nil {
		return d, nil, fmt.Errorf("%w: its delegation is no JWT", ErrMalformed)
	}
	root, ok := t.roots[d.Issuer]
	if !ok {
		return d, nil, fmt.Errorf("%w: this machine trusts %d others (FLYFLEET_TRUST)", ErrUnknownKey, len(t.roots))
	}
	d = delegationClaims{}
	err := parse(text, typeDelegation, &d, root.key, now)
	switch {
	case errors.Is(err, ErrSignature):
		return d, nil, ErrDelegation
	case errors.Is(err, ErrExpired):
		return d, nil, fmt.Errorf("%w: make a fresh signing key with flyfleet keygen", ErrStale)
	case err != nil:
		return d, nil, fmt.Errorf("delegation: %w", err)
	}
	if err := checkLife(&d.RegisteredClaims, MaxDelegation); err != nil {
		return d, nil, fmt.Errorf("delegation: %w", err)
	}
	if d.Fleet != root.fleet {
		return d, nil, fmt.Errorf("%w: %s", ErrFleet, d.Fleet)
	}
	if checkKeyName(d.Subject) != nil || checkApps(d.Apps) != nil {
		return d, nil, fmt.Errorf("%w: its delegation lacks a key name or apps", ErrMalformed)
	}
	key, err := decode(d.Key, ed25519.PublicKeySize)
	if err != nil {
		return d, nil, fmt.Errorf("%w: delegated key: %w", ErrMalformed, err)
	}
	return d, key, nil
}

// peek reads the delegation out of the header of a token that is not proven yet.
func peek(text string) (string, error) {
	unproven, _, err := jwt.NewParser(jwt.WithStrictDecoding()).ParseUnverified(text, &sessionClaims{})
	if err != nil {
		return "", fmt.Errorf("%w: no JWT", ErrMalformed)
	}
	if unproven.Header["alg"] != jwt.SigningMethodEdDSA.Alg() {
		return "", ErrAlgorithm
	}
	delegation, ok := unproven.Header["dlg"].(string)
	if !ok || delegation == "" {
		return "", fmt.Errorf("%w: it carries no delegation", ErrMalformed)
	}
	return delegation, nil
}

// parse proves signature, algorithm, type and times of a JWT and maps the library's errors to ours.
func parse(text, typ string, claims jwt.Claims, key ed25519.PublicKey, now time.Time) error {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithStrictDecoding(),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(Skew),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
	proven, err := parser.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return key, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid) && proven != nil && proven.Header["alg"] != jwt.SigningMethodEdDSA.Alg():
		return ErrAlgorithm
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return ErrSignature
	case errors.Is(err, jwt.ErrTokenExpired):
		return ErrExpired
	case errors.Is(err, jwt.ErrTokenUsedBeforeIssued), errors.Is(err, jwt.ErrTokenNotValidYet):
		return fmt.Errorf("%w: compare the clocks of both sides", ErrNotYet)
	case err != nil:
		return ErrMalformed
	case proven.Header["typ"] != typ:
		return fmt.Errorf("%w: its type is not %s", ErrMalformed, typ)
	}
	return nil
}

// checkLife holds the lifetime a token claims for itself against the most it may have.
func checkLife(c *jwt.RegisteredClaims, most time.Duration) error {
	if c.IssuedAt == nil || c.ExpiresAt == nil {
		return fmt.Errorf("%w: it lacks iat or exp", ErrMalformed)
	}
	if c.ExpiresAt.Sub(c.IssuedAt.Time) > most {
		return fmt.Errorf("%w: at most %s", ErrLifetime, most)
	}
	return nil
}
