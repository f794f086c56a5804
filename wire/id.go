package wire

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// NewID makes an exec id: a UUIDv7, whose time the machine reads to refuse ids that are older than its
// memory.
func NewID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an exec id: %w", err)
	}
	return id.String(), nil
}

// IDTime is the moment at which a client made an exec id, to the millisecond. Only the canonical
// lower-case form of a UUIDv7 is an id: it names a directory on the machine.
func IDTime(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != id {
		return time.Time{}, fmt.Errorf("not a UUIDv7 in its lower-case form")
	}
	ms := int64(u[0])<<40 | int64(u[1])<<32 | int64(u[2])<<24 | int64(u[3])<<16 | int64(u[4])<<8 | int64(u[5])
	return time.UnixMilli(ms), nil
}

// DeriveID makes the id of a further exec that one intent needs: the same for the same id and label, whoever computes it, so that
// who repeats the intent repeats its execs. It has the time of the id it comes from, and so its age; the rest is hashed.
func DeriveID(id, label string) (string, error) {
	if _, err := IDTime(id); err != nil {
		return "", err
	}
	u := uuid.MustParse(id)
	sum := sha256.Sum256([]byte("flyfleet id 1\x00" + id + "\x00" + label))
	copy(u[6:], sum[:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u.String(), nil
}
