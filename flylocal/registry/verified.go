package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

func newHash() hash.Hash { return sha256.New() }

// verified reads a blob and turns its end into an error when the bytes are not those of its digest, so that a file
// damaged on disk never becomes a machine's root.
type verified struct {
	file *os.File
	hash hash.Hash
	want string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.file.Read(p)
	v.hash.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(v.hash.Sum(nil)); got != v.want {
			return n, fmt.Errorf("%w: blob sha256:%s on disk is %s", errDigest, v.want, got)
		}
	}
	return n, err
}

func (v *verified) Close() error { return v.file.Close() }
