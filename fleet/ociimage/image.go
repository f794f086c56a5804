package ociimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is a built image: manifest and config in memory, layers still in their files. It is safe for
// concurrent use.
type Image struct {
	digest v1.Hash
	inputs string
	size   int64
	core   v1.Image
	layers []*layer
}

// Digest is the digest of the manifest, "sha256:…": what a machine's image is pinned to.
func (i *Image) Digest() string { return i.digest.String() }

// Ref is the image in a repository, such as "registry.fly.io/app@sha256:…".
func (i *Image) Ref(repository string) string { return repository + "@" + i.Digest() }

// InputsHash is the hash of the Spec it was built from; see the function InputsHash.
func (i *Image) InputsHash() string { return i.inputs }

// Size is the number of bytes of all layers as they are stored, those of the base included.
func (i *Image) Size() int64 { return i.size }

// Build computes the image of the Spec. It reads every source file once and, unless the base is scratch, the base's
// manifest and config from its registry; it writes nothing anywhere. Errors name the path, or the base.
func Build(ctx context.Context, s Spec) (*Image, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("image specification: %w", err)
	}
	members, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	layers, err := layersOf(ctx, members, s.layerFormat())
	if err != nil {
		return nil, err
	}
	base, err := s.pullBase(ctx)
	if err != nil {
		return nil, fmt.Errorf("base image %s: %w", s.base(), err)
	}
	return assemble(s, members, base, layers)
}

func assemble(s Spec, members []entry, base *baseImage, layers []*layer) (*Image, error) {
	config, err := s.config(base.config, layers)
	if err != nil {
		return nil, fmt.Errorf("base image %s: its config: %w", s.base(), err)
	}
	core := &imageCore{config: config, byDigest: map[v1.Hash]v1.Layer{}}
	m := manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: describe(types.OCIConfigJSON, config), Layers: []descriptor{}}
	img := &Image{layers: layers, inputs: s.inputsHash(members)}
	for _, l := range base.layers {
		m.Layers = append(m.Layers, l.descriptor)
		core.byDigest[l.hash] = l.layer
		img.size += l.descriptor.Size
	}
	for _, l := range layers {
		mt, _ := l.MediaType()
		m.Layers = append(m.Layers, descriptor{MediaType: mt, Digest: l.digest.String(), Size: l.size})
		core.byDigest[l.digest] = l
		img.size += l.size
	}
	if core.manifest, err = encode(m); err != nil {
		return nil, err
	}
	if img.core, err = partial.CompressedToImage(core); err != nil {
		return nil, err
	}
	img.digest, err = img.core.Digest()
	return img, err
}

// manifest and descriptor fix the order of keys, whatever a library's own types do.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     types.MediaType `json:"mediaType"`
	Config        descriptor      `json:"config"`
	Layers        []descriptor    `json:"layers"`
}

type descriptor struct {
	MediaType types.MediaType `json:"mediaType"`
	Digest    string          `json:"digest"`
	Size      int64           `json:"size"`
}

func describe(mt types.MediaType, body []byte) descriptor {
	sum := sha256.Sum256(body)
	return descriptor{MediaType: mt, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

// encode is compact JSON with sorted map keys and nothing escaped that need not be.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// imageCore is what partial completes to a v1.Image.
type imageCore struct {
	manifest, config []byte
	byDigest         map[v1.Hash]v1.Layer
}

func (c *imageCore) RawManifest() ([]byte, error) { return c.manifest, nil }

func (c *imageCore) RawConfigFile() ([]byte, error) { return c.config, nil }

func (c *imageCore) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (c *imageCore) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	l, ok := c.byDigest[h]
	if !ok {
		return nil, fmt.Errorf("the image has no layer %s", h)
	}
	return l, nil
}

// InputsHash is a hash of everything that decides the digest of the Spec's image: the Spec, the contents of its files,
// and the base's digest. It reads the files and calls nobody, so a caller who knows the digest of equal inputs can
// go without the base's registry.
func InputsHash(ctx context.Context, s Spec) (string, error) {
	if err := s.Check(); err != nil {
		return "", fmt.Errorf("image specification: %w", err)
	}
	members, err := s.entries(ctx)
	if err != nil {
		return "", err
	}
	return s.inputsHash(members), nil
}

func (s Spec) inputsHash(members []entry) string {
	type member struct {
		Path, Kind, Target, Sum string
		Mode                    uint32
		UID, GID                int
		Size                    int64
	}
	all := make([]member, 0, len(members))
	for _, e := range members {
		all = append(all, member{e.path, string(e.kind), e.target, hex.EncodeToString(e.sum[:]), e.mode, e.uid, e.gid, e.size})
	}
	// The base by its digest: where the same bytes are pulled from decides nothing.
	_, base, _ := strings.Cut(s.base(), "@")
	doc, err := encode(map[string]any{
		"form": 1, "base": base, "members": all, "entrypoint": s.Entrypoint, "cmd": s.Cmd, "env": s.Env, "labels": s.Labels,
		"user": s.User, "workdir": s.WorkDir, "ports": s.ExposedPorts, "platform": s.platform(), "format": s.layerFormat(),
	})
	if err != nil { // strings and numbers alone always encode
		doc = []byte(err.Error())
	}
	sum := sha256.Sum256(doc)
	return "sha256:" + hex.EncodeToString(sum[:])
}
