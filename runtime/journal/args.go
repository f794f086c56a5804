package journal

import "crypto/sha256"

// ArgsSHA256 is the digest of a call's arguments: of their bytes as they are.
func ArgsSHA256(args []byte) []byte {
	sum := sha256.Sum256(args)
	return sum[:]
}
