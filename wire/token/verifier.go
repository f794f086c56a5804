package token

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Verifier proves tokens for one machine and remembers those it has proven: a client sends the same
// token with every call for minutes, and a proof costs two signatures. It is safe for concurrent use.
type Verifier struct {
	trust        Trust
	app, machine string

	mu     sync.Mutex
	proven map[[sha256.Size]byte]Claims
}

// mostProven bounds the memory; when it is full it begins anew.
const mostProven = 256

// NewVerifier makes a verifier.
func NewVerifier(trust Trust, app, machine string) *Verifier {
	return &Verifier{trust: trust, app: app, machine: machine, proven: map[[sha256.Size]byte]Claims{}}
}

// Verify is Trust.Verify. What is remembered is believed only as long as a fresh proof would succeed.
func (v *Verifier) Verify(text string, now time.Time) (Claims, error) {
	key := sha256.Sum256([]byte(text))
	v.mu.Lock()
	c, ok := v.proven[key]
	v.mu.Unlock()
	if ok && c.live(now) {
		return c, nil
	}
	c, err := v.trust.Verify(text, v.app, v.machine, now)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		delete(v.proven, key)
		return c, err
	}
	if len(v.proven) >= mostProven {
		clear(v.proven)
	}
	v.proven[key] = c
	return c, nil
}

// live says whether the times of a proven token still hold.
func (c Claims) live(now time.Time) bool {
	return now.Before(c.Expires.Add(Skew)) && now.Before(c.delegated.Add(Skew)) && !now.Before(c.IssuedAt.Add(-Skew))
}
