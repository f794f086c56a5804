package ociimage

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Files of ownLayerSize and more lie in layers of their own, so that a changed small file or label pushes and pulls
// none of them again. The first maxOwnLayers by path do; registries and kernels bound the number of layers.
const (
	ownLayerSize = 1 << 20
	maxOwnLayers = 16
)

// layer is one layer that Build adds, read from its files each time it is opened.
type layer struct {
	archive *archive
	format  string
	digest  v1.Hash // of the stored bytes
	diffID  v1.Hash // of the tar
	size    int64   // of the stored bytes
}

// The layer goes out as it is stored: nothing on the way may compress it.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

func (l *layer) Size() (int64, error) { return l.size, nil }

func (l *layer) Uncompressed() (io.ReadCloser, error) { return l.archive.open(), nil }

func (l *layer) Compressed() (io.ReadCloser, error) {
	if l.format == LayerGzipStored {
		return storedGzip(l.archive.open(), l.archive.size), nil
	}
	return l.archive.open(), nil
}

func (l *layer) MediaType() (types.MediaType, error) {
	if l.format == LayerGzipStored {
		return types.OCILayer, nil
	}
	return types.OCIUncompressedLayer, nil
}

// layersOf splits the entries: first all directories, links and small files, then each big file alone.
func layersOf(ctx context.Context, entries []entry, format string) ([]*layer, error) {
	var small []entry
	groups := [][]entry{nil}
	for _, e := range entries {
		if e.size >= ownLayerSize && len(groups) <= maxOwnLayers {
			groups = append(groups, []entry{e})
			continue
		}
		small = append(small, e)
	}
	groups[0] = small
	var out []*layer
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		l, err := newLayer(ctx, g, format)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

func newLayer(ctx context.Context, entries []entry, format string) (*layer, error) {
	a, err := newArchive(entries)
	if err != nil {
		return nil, err
	}
	l := &layer{archive: a, format: format}
	if l.diffID, l.size, err = hashStream(ctx, a.open()); err != nil {
		return nil, err
	}
	if l.size != a.size {
		return nil, fmt.Errorf("layer is %d bytes, its pieces are %d", l.size, a.size)
	}
	l.digest = l.diffID
	if format == LayerGzipStored {
		l.digest, l.size, err = hashStream(ctx, storedGzip(a.open(), a.size))
	}
	return l, err
}

func hashStream(ctx context.Context, r io.ReadCloser) (v1.Hash, int64, error) {
	defer r.Close()
	return v1.SHA256(contextReader{ctx, r})
}
