package secrets

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// Sealer encrypts what belongs to one submission. Its methods may be called from many goroutines.
type Sealer interface {
	// Seal encrypts under the newest key.
	Seal(ctx context.Context, submission uuid.UUID, plain []byte) (Sealed, error)
	// Open decrypts. ErrSealed says that it was not sealed for that submission, or was changed; ErrKey that its key is
	// not here any more.
	Open(ctx context.Context, submission uuid.UUID, sealed Sealed) ([]byte, error)
}

// Sealed is an encrypted secret.
type Sealed struct {
	// KeyID names the key.
	KeyID string
	// Data is nonce, ciphertext and tag.
	Data []byte
}

var (
	// ErrSealed says that a sealed secret is not what it should be.
	ErrSealed = errors.New("the sealed secret was not made for this submission, or was changed")
	// ErrKey says that the key of a sealed secret is unknown.
	ErrKey = errors.New("the key of the sealed secret is not known here")
)

// Keyring seals with keys that the process holds: AES-256-GCM with a random nonce, bound to the submission and the
// key's id. A key should be replaced before it has sealed 2^32 secrets.
type Keyring struct {
	newest string
	keys   map[string]cipher.AEAD
}

var _ Sealer = (*Keyring)(nil)

// ParseKeyring reads "id:key,id:key…", the newest first: the others only open. A key is 32 bytes in base64. Instead
// it may be the absolute path of a file that holds that, and that nobody but its owner may read. No error holds
// any of it.
func ParseKeyring(text string) (*Keyring, error) {
	if filepath.IsAbs(text) {
		content, err := readPrivate(text)
		if err != nil {
			return nil, err
		}
		text = content
	}
	ring := &Keyring{keys: map[string]cipher.AEAD{}}
	for i, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == ' ' }) {
		id, encoded, named := strings.Cut(entry, ":")
		if !named || id == "" || ring.keys[id] != nil {
			return nil, fmt.Errorf("sealing key %d has no id of its own: write id:base64", i+1)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("sealing key %q is not 32 bytes in base64: make one with openssl rand -base64 32", id)
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, fmt.Errorf("sealing key %q: %w", id, err)
		}
		ring.keys[id] = aead
		if ring.newest == "" {
			ring.newest = id
		}
	}
	if ring.newest == "" {
		return nil, errors.New("there is no sealing key: write id:base64 of 32 bytes")
	}
	return ring, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read the sealing keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("read the sealing keys: others may read %s: chmod 600 it", path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the sealing keys: %w", err)
	}
	return string(content), nil
}

// Seal encrypts under the newest key.
func (k *Keyring) Seal(_ context.Context, submission uuid.UUID, plain []byte) (Sealed, error) {
	data := k.keys[k.newest].Seal(nil, nil, plain, bound(submission, k.newest)) //nolint:gosec // the AEAD draws its nonce itself
	return Sealed{KeyID: k.newest, Data: data}, nil
}

// Open decrypts with the key that it names.
func (k *Keyring) Open(_ context.Context, submission uuid.UUID, sealed Sealed) ([]byte, error) {
	aead := k.keys[sealed.KeyID]
	if aead == nil {
		return nil, fmt.Errorf("open a credential of submission %s: %w (%q)", submission, ErrKey, sealed.KeyID)
	}
	plain, err := aead.Open(nil, nil, sealed.Data, bound(submission, sealed.KeyID))
	if err != nil {
		return nil, fmt.Errorf("open a credential of submission %s: %w", submission, ErrSealed)
	}
	return plain, nil
}

// bound is what a sealed secret is tied to.
func bound(submission uuid.UUID, key string) []byte {
	return append(submission[:], key...)
}
