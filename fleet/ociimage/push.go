package ociimage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Destination is where Push puts an image.
type Destination struct {
	// Registry is host or host:port. Plain HTTP is spoken to loopback addresses only.
	Registry string
	// Repository is the name inside the registry: on Fly, the app's name.
	Repository string
	// Tag is set on the image as well when not empty. Machines pin the digest.
	Tag string
	// Token is the password; Fly ignores the user name.
	Token string
}

// Ref is the repository with its registry, as Image.Ref takes it.
func (d Destination) Ref() string { return d.Registry + "/" + d.Repository }

// Limits of one push. A registry that answers 5xx, or does not show yet what it has taken, is asked again.
const (
	pushAttempts   = 5
	visibleTimeout = 60 * time.Second
	firstPause     = 200 * time.Millisecond
	longestPause   = 3 * time.Second
)

// Push uploads what the registry lacks and returns when the registry answers for the digest. It is idempotent: an
// image that is there already costs a few HEADs. The error says what the registry said.
func Push(ctx context.Context, img *Image, d Destination) error {
	ref, err := d.parse(img)
	if err != nil {
		return err
	}
	options := remoteOptions(ctx, d.Registry, d.Token)
	for attempt := 1; ; attempt++ {
		if err = remote.Write(ref.upload, img.core, options...); err == nil {
			break
		}
		if attempt == pushAttempts || !again(err) {
			return fmt.Errorf("pushing %s to %s: %w", img.Digest(), d.Ref(), err)
		}
		if err := pause(ctx, attempt); err != nil {
			return fmt.Errorf("pushing %s to %s: %w", img.Digest(), d.Ref(), err)
		}
	}
	if err := awaitVisible(ctx, ref.digest, img.digest, options); err != nil {
		return fmt.Errorf("image %s was pushed to %s, but the registry does not answer for it: %w", img.Digest(), d.Ref(), err)
	}
	return nil
}

type destinationRefs struct {
	upload name.Reference
	digest name.Digest
}

func (d Destination) parse(img *Image) (destinationRefs, error) {
	var opts []name.Option
	if loopback(d.Registry) {
		opts = append(opts, name.Insecure)
	}
	if strings.Contains(d.Registry, "://") {
		return destinationRefs{}, fmt.Errorf("registry %q: want host or host:port, without a scheme", d.Registry)
	}
	digest, err := name.NewDigest(d.Ref()+"@"+img.Digest(), opts...)
	if err != nil {
		return destinationRefs{}, fmt.Errorf("push destination %s: %w", d.Ref(), err)
	}
	refs := destinationRefs{upload: digest, digest: digest}
	if d.Tag != "" {
		if refs.upload, err = name.NewTag(d.Ref()+":"+d.Tag, opts...); err != nil {
			return refs, fmt.Errorf("push destination %s:%s: %w", d.Ref(), d.Tag, err)
		}
	}
	return refs, nil
}

// Resolve is the digest that the destination's tag names now; found is false when the registry knows no such tag.
func Resolve(ctx context.Context, d Destination) (digest string, found bool, err error) {
	var opts []name.Option
	if loopback(d.Registry) {
		opts = append(opts, name.Insecure)
	}
	tag, err := name.NewTag(d.Ref()+":"+d.Tag, opts...)
	if err != nil {
		return "", false, fmt.Errorf("image %s:%s: %w", d.Ref(), d.Tag, err)
	}
	desc, err := remote.Head(tag, remoteOptions(ctx, d.Registry, d.Token)...)
	if status(err) == http.StatusNotFound {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("asking the registry for %s: %w", tag, err)
	}
	return desc.Digest.String(), true, nil
}

// awaitVisible asks by digest until the registry knows it. Fly's registry is known to answer MANIFEST_UNKNOWN
// for a moment after a push, and a machine created in that moment fails to pull.
func awaitVisible(ctx context.Context, ref name.Digest, want v1.Hash, options []remote.Option) error {
	ctx, cancel := context.WithTimeout(ctx, visibleTimeout)
	defer cancel()
	options = append(options, remote.WithContext(ctx))
	for attempt := 1; ; attempt++ {
		desc, err := remote.Head(ref, options...)
		if err == nil {
			if desc.Digest != want {
				return fmt.Errorf("it answers with digest %s", desc.Digest)
			}
			return nil
		}
		if !again(err) && status(err) != http.StatusNotFound {
			return err
		}
		if perr := pause(ctx, attempt); perr != nil {
			return errors.Join(err, perr)
		}
	}
}

// again tells whether the same request may succeed later.
func again(err error) bool {
	s := status(err)
	if s >= 500 || s == http.StatusTooManyRequests || s == http.StatusRequestTimeout {
		return true
	}
	var t *transport.Error
	if errors.As(err, &t) {
		for _, d := range t.Errors {
			if d.Code == transport.ManifestUnknownErrorCode || d.Code == transport.BlobUnknownErrorCode || d.Code == transport.BlobUploadUnknownErrorCode {
				return true
			}
		}
		return false
	}
	var n net.Error
	return errors.As(err, &n) && n.Timeout() && !errors.Is(err, context.DeadlineExceeded)
}

func status(err error) int {
	var t *transport.Error
	if errors.As(err, &t) {
		return t.StatusCode
	}
	return 0
}

func pause(ctx context.Context, attempt int) error {
	d := min(firstPause<<(attempt-1), longestPause)
	if attempt > 10 {
		d = longestPause
	}
	t := time.NewTimer(d/2 + rand.N(d/2)) //nolint:gosec // jitter needs no secrecy
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func remoteOptions(ctx context.Context, registry, token string) []remote.Option {
	options := []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(&plainOnlyToLoopback{remote.DefaultTransport}),
		remote.WithUserAgent("flyfleet"),
		remote.WithJobs(4),
	}
	switch {
	case token != "":
		return append(options, remote.WithAuth(&authn.Basic{Username: "x", Password: token}))
	case loopback(registry):
		return options
	}
	return append(options, remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// plainOnlyToLoopback keeps tokens and images off the network in clear: the library below would also speak
// plain HTTP to private addresses.
type plainOnlyToLoopback struct{ next http.RoundTripper }

func (t *plainOnlyToLoopback) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" && !loopback(r.URL.Host) {
		return nil, fmt.Errorf("plain HTTP to registry %s is refused: only loopback addresses may do without TLS", r.URL.Host)
	}
	return t.next.RoundTrip(r)
}

// loopback tells whether host or host:port is this computer.
func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
