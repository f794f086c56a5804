// Package apikey proves which tenant calls. A key is a public id and 32 random bytes; the bytes are shown once, when
// the key is made, and only their hash is kept. They are random, so a plain hash is as good as a slow one.
package apikey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Prefix begins every key, so that people and scanners know what they have found.
const Prefix = "ffkey1"

// secretBytes and idBytes are what is random in a key.
const (
	secretBytes = 32
	idBytes     = 9
)

var (
	// ErrRefused says that a key is not one of ours, or not any more. It does not say which.
	ErrRefused = errors.New("the API key is not valid")
	// ErrUnknown is a Source's word for a key that is missing, revoked or expired.
	ErrUnknown = errors.New("apikey: no such key")
)

// Key is what is kept of a key.
type Key struct {
	// ID is public: it is logged, and names the key to revoke.
	ID     string
	Tenant string
	// Hash is the SHA-256 of the secret bytes.
	Hash [sha256.Size]byte
}

// Mint makes a key of a tenant. The text is what the tenant is given; it exists nowhere else.
func Mint(tenant string) (text string, key Key, err error) {
	if tenant == "" {
		return "", Key{}, errors.New("an API key needs a tenant")
	}
	random := make([]byte, idBytes+secretBytes)
	if _, err := rand.Read(random); err != nil {
		return "", Key{}, fmt.Errorf("make an API key: %w", err)
	}
	key = Key{
		ID:     base64.RawURLEncoding.EncodeToString(random[:idBytes]),
		Tenant: tenant,
		Hash:   sha256.Sum256(random[idBytes:]),
	}
	return Prefix + "." + key.ID + "." + base64.RawURLEncoding.EncodeToString(random[idBytes:]), key, nil
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{12}$`)

// parse takes a key's text apart. Its errors do not quote it.
func parse(text string) (id string, secret []byte, ok bool) {
	prefix, rest, _ := strings.Cut(text, ".")
	id, encoded, _ := strings.Cut(rest, ".")
	if prefix != Prefix || !idForm.MatchString(id) || len(encoded) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return "", nil, false
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return id, secret, err == nil
}

// Source has the keys, by their public id. A key that is revoked or expired, by the source's clock, is ErrUnknown.
type Source interface {
	APIKey(ctx context.Context, id string) (Key, error)
}

// Options of a Verifier. Zero fields have the defaults.
type Options struct {
	// Remember is how long a key is taken without asking the source: a revoked one works so long. 10 s.
	Remember time.Duration
	// Most is how many keys are remembered. 10000.
	Most int
	// Lookups is how many callers may ask the source at the same time: strangers with made-up ids must not take the
	// database from those who have work there. 8.
	Lookups int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Verifier proves keys. It may be used by many goroutines.
type Verifier struct {
	source  Source
	options Options
	asking  chan struct{}

	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	key   Key
	until time.Time
}

// NewVerifier makes a verifier of the source's keys.
func NewVerifier(source Source, options Options) *Verifier {
	if options.Remember <= 0 {
		options.Remember = 10 * time.Second
	}
	if options.Most <= 0 {
		options.Most = 10000
	}
	if options.Lookups <= 0 {
		options.Lookups = 8
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Verifier{source: source, options: options, asking: make(chan struct{}, options.Lookups), known: map[string]remembered{}}
}

// Verify proves a key's text: ErrRefused when it is none of ours, another error when that cannot be told now.
func (v *Verifier) Verify(ctx context.Context, text string) (Key, error) {
	id, secret, ok := parse(text)
	if !ok {
		return Key{}, ErrRefused
	}
	key, err := v.lookup(ctx, id)
	if errors.Is(err, ErrUnknown) {
		return Key{}, ErrRefused
	}
	if err != nil {
		return Key{}, fmt.Errorf("look up the API key: %w", err)
	}
	hash := sha256.Sum256(secret)
	if subtle.ConstantTimeCompare(hash[:], key.Hash[:]) != 1 {
		return Key{}, ErrRefused
	}
	return key, nil
}

func (v *Verifier) lookup(ctx context.Context, id string) (Key, error) {
	v.mu.Lock()
	r, ok := v.known[id]
	v.mu.Unlock()
	if ok && v.options.Now().Before(r.until) {
		return r.key, nil
	}
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return Key{}, context.Cause(ctx)
	}
	key, err := v.source.APIKey(ctx, id)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		delete(v.known, id)
		return Key{}, err
	}
	for other := range v.known {
		if len(v.known) < v.options.Most {
			break
		}
		delete(v.known, other)
	}
	v.known[id] = remembered{key: key, until: v.options.Now().Add(v.options.Remember)}
	return key, nil
}
