package ociimage

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Has reports whether the destination's repository holds an image with the digest ("sha256:…"), by one HEAD. A
// repository that does not exist holds nothing.
func Has(ctx context.Context, d Destination, digest string) (bool, error) {
	var opts []name.Option
	if loopback(d.Registry) {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.NewDigest(d.Ref()+"@"+digest, opts...)
	if err != nil {
		return false, fmt.Errorf("image %s@%s: %w", d.Ref(), digest, err)
	}
	_, err = remote.Head(ref, remoteOptions(ctx, d.Registry, d.Token)...)
	switch {
	case err == nil:
		return true, nil
	case status(err) == http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("asking the registry for %s: %w", ref, err)
}
