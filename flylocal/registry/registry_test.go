package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func tarOf(t *testing.T, content string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// pushed is a store with an image of one plain tar layer in it, pushed over HTTP as clients do.
func pushed(t *testing.T) (*Store, v1.Layer, []byte) {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	content := tarOf(t, strings.Repeat("content", 1000))
	layer := static.NewLayer(content, types.OCIUncompressedLayer)
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s, layer, content
}

func storedLayerOf(t *testing.T, s *Store) v1.Layer {
	t.Helper()
	img, err := s.Image("app", "v1")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	return layers[0]
}

func TestAPlainTarLayerIsReadAsItIs(t *testing.T) {
	s, _, content := pushed(t)
	r, err := storedLayerOf(t, s).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
}

func TestALayerDamagedOnDiskIsNeverReadToItsEnd(t *testing.T) {
	s, layer, content := pushed(t)
	digest, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(s.blobPath(digest.String()), content, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := storedLayerOf(t, s).Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); !errors.Is(err, errDigest) {
		t.Errorf("read to its end: %v", err)
	}
}

func TestReferencesReadAsFlyShowsThem(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]state.ImageRef{
		"nginx":                                {Registry: "registry-1.docker.io", Repository: "library/nginx", Tag: "latest"},
		"flyio/app:v2":                         {Registry: "registry-1.docker.io", Repository: "flyio/app", Tag: "v2"},
		"registry.fly.io/app@" + digest:        {Registry: "registry.fly.io", Repository: "app", Digest: digest},
		"registry.fly.io/app:dep@" + digest:    {Registry: "registry.fly.io", Repository: "app", Tag: "dep", Digest: digest},
		"127.0.0.1:5000/a/b:v1":                {Registry: "127.0.0.1:5000", Repository: "a/b", Tag: "v1"},
		"127.0.0.1:5000/a/b@" + digest:         {Registry: "127.0.0.1:5000", Repository: "a/b", Digest: digest},
		"localhost:5000/nested/deep/app:t.1-x": {Registry: "localhost:5000", Repository: "nested/deep/app", Tag: "t.1-x"},
	} {
		got, err := ParseRef(text)
		if err != nil || got.String() != want.String() || got.Tag != want.Tag {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "UPPER/case", "a b", "app@sha256:short", "app:" + strings.Repeat("x", 200)} {
		if got, err := ParseRef(text); err == nil {
			t.Errorf("%q was taken as %+v", text, got)
		}
	}
}
