package engine

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"sync"
	"time"
)

// newMachineID is 14 hexadecimal characters, as on Fly.
func newMachineID() string {
	var b [7]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails.
	return hex.EncodeToString(b[:])
}

const lower = "0123456789abcdefghijklmnopqrstuvwxyz"

func randomText(n int, alphabet string) string {
	out := make([]byte, n)
	_, _ = rand.Read(out)
	for i, b := range out {
		out[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(out)
}

func newVolumeID() string { return "vol_" + randomText(16, lower) }

func newSnapshotID() string { return "vs_" + randomText(22, lower) }

// nonce is a lease's secret.
func newNonce() string { return hex.EncodeToString([]byte(randomText(8, lower))) }

var ulid struct {
	sync.Mutex
	last [16]byte
}

// newULID is a 26-character ULID: 48 bits of milliseconds, 80 random bits, rising also within a millisecond.
func newULID() string {
	ulid.Lock()
	defer ulid.Unlock()
	var id [16]byte
	ms := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	_, _ = rand.Read(id[6:])
	last := new(big.Int).SetBytes(ulid.last[:])
	if new(big.Int).SetBytes(id[:]).Cmp(last) <= 0 {
		last.Add(last, big.NewInt(1)).FillBytes(id[:])
	}
	ulid.last = id
	return encodeULID(id)
}

func encodeULID(id [16]byte) string {
	const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	n := new(big.Int).SetBytes(id[:])
	out := make([]byte, 26)
	low := big.NewInt(31)
	for i := 25; i >= 0; i-- {
		out[i] = crockford[new(big.Int).And(n, low).Int64()]
		n.Rsh(n, 5)
	}
	return string(out)
}

var (
	words1 = []string{"amber", "bitter", "blue", "calm", "cold", "divine", "falling", "green", "holy", "icy", "late", "little", "long", "misty", "old", "quiet", "rough", "silent", "snowy", "wild"}
	words2 = []string{"bird", "brook", "bush", "cloud", "dew", "field", "fire", "forest", "fog", "glade", "hill", "lake", "leaf", "moon", "night", "pond", "rain", "river", "sky", "water"}
)

// newMachineName is word-word-number, as Fly makes them.
func newMachineName() string {
	return pick(words1) + "-" + pick(words2) + "-" + randomText(4, "123456789")
}

func pick(words []string) string {
	var b [1]byte
	_, _ = rand.Read(b[:])
	return words[int(b[0])%len(words)]
}
