package ociimage

import (
	"context"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// baseImage is what Build takes from the base. Its layers are pulled only when they are pushed.
type baseImage struct {
	config []byte
	layers []baseLayer
}

type baseLayer struct {
	hash       v1.Hash
	descriptor descriptor
	layer      v1.Layer
}

func (s Spec) pullBase(ctx context.Context) (*baseImage, error) {
	if s.base() == Scratch {
		return &baseImage{}, nil
	}
	ref, err := s.baseDigest()
	if err != nil {
		return nil, err
	}
	options := remoteOptions(ctx, ref.Context().RegistryStr(), s.BaseToken)
	desc, err := remote.Get(ref, options...)
	if err != nil {
		return nil, fmt.Errorf("pulling its manifest: %w", err)
	}
	img, err := s.choose(desc)
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("pulling its config: %w", err)
	}
	m, err := img.Manifest()
	if err != nil {
		return nil, fmt.Errorf("reading its manifest: %w", err)
	}
	out := &baseImage{config: config}
	for _, d := range m.Layers {
		l, err := img.LayerByDigest(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
		}
		mounted := &remote.MountableLayer{Layer: l, Reference: ref}
		out.layers = append(out.layers, baseLayer{d.Digest, descriptor{ociLayerType(d.MediaType), d.Digest.String(), d.Size}, mounted})
	}
	return out, nil
}

// choose takes the image itself, or the one of a multi-platform index that fits the Spec's platform.
func (s Spec) choose(desc *remote.Descriptor) (v1.Image, error) {
	want, err := v1.ParsePlatform(s.platform())
	if err != nil {
		return nil, err
	}
	if desc.MediaType.IsImage() {
		img, err := desc.Image()
		if err != nil {
			return nil, err
		}
		have, err := img.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("pulling its config: %w", err)
		}
		if p := have.Platform(); p != nil && !p.Satisfies(*want) {
			return nil, fmt.Errorf("it is for %s, the image for %s", p, want)
		}
		return img, nil
	}
	if !desc.MediaType.IsIndex() {
		return nil, fmt.Errorf("it is neither an image nor an index but %s", desc.MediaType)
	}
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, err
	}
	all, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var offered []string
	for _, m := range all.Manifests {
		if m.Platform == nil {
			continue
		}
		if m.MediaType.IsImage() && m.Platform.Satisfies(*want) {
			return index.Image(m.Digest)
		}
		offered = append(offered, m.Platform.String())
	}
	return nil, fmt.Errorf("it offers no %s, only %s", want, strings.Join(offered, ", "))
}

// ociLayerType names the same bytes in an OCI manifest.
func ociLayerType(mt types.MediaType) types.MediaType {
	switch mt {
	case types.DockerLayer:
		return types.OCILayer
	case types.DockerUncompressedLayer:
		return types.OCIUncompressedLayer
	}
	return mt
}

var _ partial.CompressedLayer = (*layer)(nil)
