// Package images finds what a machine's image reference stands for: in the platform's own registry, under its own
// address and under registry.fly.io, and elsewhere by asking the registry that the reference names.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/registry"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Finder finds images. It is safe for concurrent use.
type Finder struct {
	// Store is the platform's registry.
	Store *registry.Store
	// Host is where the platform serves it, host:port.
	Host string
	// Pretend makes up a digest for images of other registries in place of pulling them: for the runner that starts
	// no processes. References to the platform's own registry must exist all the same.
	Pretend bool
}

// flyRegistry is Fly's own registry; its images are looked for in the platform's.
const flyRegistry = "registry.fly.io"

// Resolve answers what a reference stands for without going over a network.
func (f *Finder) Resolve(text string) (state.ImageRef, error) {
	ref, err := registry.ParseRef(text)
	if err != nil {
		return ref, err
	}
	if f.local(ref) {
		if found, _, err := f.fromStore(ref); err == nil {
			return found, nil
		}
	}
	if f.pretends(ref) && ref.Digest == "" {
		ref.Digest = madeUp(ref)
	}
	return ref, nil
}

// Pull fetches an image, or answers why that fails.
func (f *Finder) Pull(ctx context.Context, text string) (state.ImageRef, v1.Image, error) {
	ref, err := registry.ParseRef(text)
	if err != nil {
		return ref, nil, err
	}
	if f.local(ref) {
		found, image, err := f.fromStore(ref)
		if err == nil || !errors.Is(err, registry.ErrUnknown) || ref.Registry == f.Host {
			return found, image, err
		}
	}
	if f.pretends(ref) {
		if ref.Digest == "" {
			ref.Digest = madeUp(ref)
		}
		return ref, nil, nil
	}
	if ref.Registry == flyRegistry {
		return ref, nil, fmt.Errorf("image %s: push it to the local registry %s first: %w", text, f.Host, registry.ErrUnknown)
	}
	return f.fromRemote(ctx, ref)
}

// local says whether a reference may be in the platform's registry: under Fly's name, or under any loopback address,
// since the platform's port may be another one than when the image was pushed.
func (f *Finder) local(ref state.ImageRef) bool {
	if ref.Registry == f.Host || ref.Registry == flyRegistry {
		return true
	}
	host, _, err := net.SplitHostPort(ref.Registry)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (f *Finder) pretends(ref state.ImageRef) bool { return f.Pretend && ref.Registry != f.Host }

func (f *Finder) fromStore(ref state.ImageRef) (state.ImageRef, v1.Image, error) {
	reference := ref.Digest
	if reference == "" {
		reference = ref.Tag
	}
	digest, err := f.Store.Digest(ref.Repository, reference)
	if err != nil {
		return ref, nil, err
	}
	ref.Digest = digest
	image, err := f.Store.Image(ref.Repository, digest)
	if err != nil {
		return ref, nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return ref, nil, fmt.Errorf("image %s: %w", ref, err)
	}
	ref.Labels = config.Config.Labels
	return ref, image, nil
}

func (f *Finder) fromRemote(ctx context.Context, ref state.ImageRef) (state.ImageRef, v1.Image, error) {
	parsed, err := name.ParseReference(strings.TrimPrefix(pinned(ref).String(), "registry-1.docker.io/"))
	if err != nil {
		return ref, nil, err
	}
	descriptor, err := remote.Get(parsed, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return ref, nil, fmt.Errorf("pull %s: %w", ref, err)
	}
	image, err := descriptor.Image()
	if err != nil {
		return ref, nil, fmt.Errorf("pull %s: %w", ref, err)
	}
	ref.Digest = descriptor.Digest.String()
	return ref, image, nil
}

// pinned drops the tag of a reference that has a digest too: the digest alone decides.
func pinned(ref state.ImageRef) state.ImageRef {
	if ref.Digest != "" {
		ref.Tag = ""
	}
	return ref
}

func madeUp(ref state.ImageRef) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Describe answers the compressed size of an image of the platform's registry and its manifest; zero and nothing for
// others.
func (f *Finder) Describe(ref state.ImageRef) (size int64, manifest string) {
	raw, _, _, err := f.Store.Manifest(ref.Repository, ref.Digest)
	if err != nil {
		return 0, ""
	}
	image, err := f.Store.Image(ref.Repository, ref.Digest)
	if err != nil {
		return 0, string(raw)
	}
	layers, err := image.Layers()
	if err != nil {
		return 0, string(raw)
	}
	for _, layer := range layers {
		if n, err := layer.Size(); err == nil {
			size += n
		}
	}
	return size, string(raw)
}
