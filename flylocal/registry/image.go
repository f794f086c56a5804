package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Digest answers the digest behind a tag or digest of a repository, or ErrUnknown.
func (s *Store) Digest(repo, reference string) (string, error) {
	_, digest, _, err := s.manifest(repo, reference)
	return digest, err
}

// Image answers an image by tag or digest. Of an index it takes the entry for linux and this computer's processor.
// Layers are read when they are asked for, and checked against their digests then.
func (s *Store) Image(repo, reference string) (v1.Image, error) {
	raw, _, mediaType, err := s.manifest(repo, reference)
	if err != nil {
		return nil, err
	}
	if !types.MediaType(mediaType).IsIndex() {
		return partial.CompressedToImage(&stored{store: s, raw: raw, mediaType: types.MediaType(mediaType)})
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("index %s@%s: %w", repo, reference, err)
	}
	for _, m := range index.Manifests {
		if m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == runtime.GOARCH {
			return s.Image(repo, m.Digest.String())
		}
	}
	return nil, fmt.Errorf("index %s@%s has no image for linux/%s", repo, reference, runtime.GOARCH)
}

// Manifest answers a manifest's bytes, digest and media type, by tag or digest.
func (s *Store) Manifest(repo, reference string) (raw []byte, digest, mediaType string, err error) {
	return s.manifest(repo, reference)
}

// stored is an image whose parts are blobs of a store.
type stored struct {
	store     *Store
	raw       []byte
	mediaType types.MediaType
}

func (i *stored) RawManifest() ([]byte, error) { return i.raw, nil }

func (i *stored) MediaType() (types.MediaType, error) { return i.mediaType, nil }

func (i *stored) RawConfigFile() ([]byte, error) {
	m, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	f, err := i.store.openBlob(m.Config.Digest.String())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest))
}

func (i *stored) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	m, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	if h == m.Config.Digest {
		return &storedLayer{store: i.store, descriptor: m.Config}, nil
	}
	for _, d := range m.Layers {
		if d.Digest == h {
			return &storedLayer{store: i.store, descriptor: d}, nil
		}
	}
	return nil, fmt.Errorf("layer %s: %w", h, ErrUnknown)
}

type storedLayer struct {
	store      *Store
	descriptor v1.Descriptor
}

func (l *storedLayer) Digest() (v1.Hash, error) { return l.descriptor.Digest, nil }

func (l *storedLayer) Size() (int64, error) { return l.descriptor.Size, nil }

func (l *storedLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }

func (l *storedLayer) Compressed() (io.ReadCloser, error) {
	f, err := l.store.openBlob(l.descriptor.Digest.String())
	if err != nil {
		return nil, err
	}
	return &verified{file: f, hash: newHash(), want: l.descriptor.Digest.Hex}, nil
}
