// Package imageref compares the spellings of image references: what is equal for a registry is written in several
// ways, and a plan must not show one of them as a change of the other.
package imageref

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Digest is the sha256:… of a reference that is pinned by one, else "".
func Digest(ref string) string {
	_, digest, found := strings.Cut(ref, "@")
	if !found || !strings.HasPrefix(digest, "sha256:") {
		return ""
	}
	return digest
}

// Valid says why ref is no image reference, nil when it is one.
func Valid(ref string) error {
	_, err := name.ParseReference(ref, name.WeakValidation)
	return err
}

// Same reports that two references mean the same content: equal digests, whatever repository and tag stand before
// them, or, where neither has a digest, equal names after the registry's defaults (docker.io/library, latest) are filled
// in.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	if a == "" || b == "" {
		return false
	}
	if da, db := Digest(a), Digest(b); da != "" || db != "" {
		return da == db
	}
	ra, err := name.ParseReference(a, name.WeakValidation)
	if err != nil {
		return false
	}
	rb, err := name.ParseReference(b, name.WeakValidation)
	if err != nil {
		return false
	}
	return ra.Name() == rb.Name()
}
