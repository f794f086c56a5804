// Package machinetoken makes and proves the token with which a command calls the runtime back. It is an HMAC over the command's id
// and its session's claim of a slot, so that any replica derives the same one again and none keeps it. It is good while the
// command runs and the session has that slot: not after the command's end, not after the slot was given back, also when
// the session has claimed one anew; a takeover by another replica does not end it.
//
// It goes to the command as secret environment and nowhere else. What a caller says beside it counts for nothing: tenant,
// session and command are those of the token.
package machinetoken

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Variable of the environment in which a command finds its token.
const Variable = "FLYFLEET_PROXY_TOKEN"

// minKey is the least that a key has; prefix names the form of the token's text: prefix.id.mac.
const (
	minKey = 32
	prefix = "ffm1"
)

// ErrInvalid says that a token is none, or is not good any more. It does not say which: a caller must learn nothing from it.
var ErrInvalid = errors.New("the machine token is not valid")

// Claim is the claim of a slot that a token stands for. On a machine without slots, as those for trying have none, it names the
// machine alone.
type Claim struct {
	Machine string
	Slot    int
	// At is when the session claimed it, by the database's clock, in microseconds.
	At time.Time
}

// ClaimOf is the claim of a slot that a session has.
func ClaimOf(held store.Held) Claim {
	return Claim{Machine: held.Machine, Slot: held.Slot, At: held.ClaimedAt}
}

// Keys make and prove tokens: the first one makes them, each proves, so that a key can be changed while commands run.
type Keys struct{ keys [][]byte }

// NewKeys takes keys of at least 32 random bytes.
func NewKeys(keys ...[]byte) (*Keys, error) {
	if len(keys) == 0 {
		return nil, errors.New("machine tokens need a key")
	}
	for i, k := range keys {
		if len(k) < minKey {
			return nil, fmt.Errorf("key %d of machine tokens has %d bytes; at least %d random ones are needed", i+1, len(k), minKey)
		}
	}
	return &Keys{keys: keys}, nil
}

// ParseKeys reads keys in base64, separated by commas or lines, the newest first: it makes tokens, the others only prove them. Instead
// the text may be the absolute path of a file that holds that, and that nobody but its owner may read. No error holds any of it.
func ParseKeys(text string) (*Keys, error) {
	if filepath.IsAbs(text) {
		about, err := os.Stat(text)
		if err != nil {
			return nil, err
		}
		if about.Mode().Perm()&0o077 != 0 || about.Size() > maxFile {
			return nil, fmt.Errorf("%s may be read by others than its owner, or is too long: chmod 600 %s", text, text)
		}
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	var keys [][]byte
	for i, encoded := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' || r == ' ' }) {
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("key %d of machine tokens is not base64: make one with openssl rand -base64 32", i+1)
		}
		keys = append(keys, key)
	}
	return NewKeys(keys...)
}

// maxFile bounds a file of keys.
const maxFile = 64 << 10

// LogValue keeps the keys out of slog.
func (k *Keys) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf("%d keys", len(k.keys))) }

// String keeps them out of everything else.
func (k *Keys) String() string { return k.LogValue().String() }

// Token is the token of a command under a claim.
func (k *Keys) Token(exec uuid.UUID, claim Claim) string { return text(k.keys[0], exec, claim) }

// All are the tokens of a command under each key, the first one's first: what it may have been given.
func (k *Keys) All(exec uuid.UUID, claim Claim) []string {
	all := make([]string, 0, len(k.keys))
	for _, key := range k.keys {
		all = append(all, text(key, exec, claim))
	}
	return all
}

func text(key []byte, exec uuid.UUID, claim Claim) string {
	return prefix + "." + exec.String() + "." + base64.RawURLEncoding.EncodeToString(mac(key, exec, claim))
}

func mac(key []byte, exec uuid.UUID, claim Claim) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("flyfleet machine token 1\x00"))
	h.Write(exec[:])
	numbers := binary.BigEndian.AppendUint64(nil, uint64(claim.Slot))
	numbers = binary.BigEndian.AppendUint64(numbers, uint64(claim.At.UnixMicro()))
	h.Write(numbers)
	h.Write([]byte(claim.Machine)) // the last one, so that no length is needed
	return h.Sum(nil)
}

// Commands finds commands by id; *store.Store is one.
type Commands interface {
	ExecSlot(ctx context.Context, exec uuid.UUID) (store.ExecSlot, error)
}

// Verify gives whose a token is, or an error that wraps ErrInvalid. Any other error means that it could not be looked up.
func (k *Keys) Verify(ctx context.Context, commands Commands, token string) (uuid.UUID, store.ExecSlot, error) {
	exec, sum, err := parse(token)
	if err != nil {
		return uuid.Nil, store.ExecSlot{}, err
	}
	is, err := commands.ExecSlot(ctx, exec)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return uuid.Nil, store.ExecSlot{}, ErrInvalid
	case err != nil:
		return uuid.Nil, store.ExecSlot{}, err
	case is.State != store.ExecStarted || is.Slotted && is.Slot == 0:
		return uuid.Nil, store.ExecSlot{}, ErrInvalid
	}
	claim := Claim{Machine: is.Machine, Slot: is.Slot, At: is.ClaimedAt}
	good := false
	for _, key := range k.keys {
		good = hmac.Equal(sum, mac(key, exec, claim)) || good
	}
	if !good {
		return uuid.Nil, store.ExecSlot{}, ErrInvalid
	}
	return exec, is, nil
}

// maxToken bounds what is looked at: 5 + 36 + 1 + 43 bytes.
const maxToken = 85

func parse(token string) (uuid.UUID, []byte, error) {
	if len(token) != maxToken {
		return uuid.Nil, nil, ErrInvalid
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] != prefix {
		return uuid.Nil, nil, ErrInvalid
	}
	exec, err := uuid.Parse(parts[1])
	if err != nil || exec.String() != parts[1] {
		return uuid.Nil, nil, ErrInvalid
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || len(sum) != sha256.Size {
		return uuid.Nil, nil, ErrInvalid
	}
	return exec, sum, nil
}
