// Package rootfs turns the layers of an OCI image into a directory. It applies layers in order, with whiteouts,
// hard links, modes and, where it is allowed to, owners; and it treats layers as hostile: every write goes through an
// os.Root, so that no name and no link leads out of the directory.
//
// Rules: https://github.com/opencontainers/image-spec/blob/main/layer.md. Device nodes and FIFOs are left out (a user
// namespace may not make devices), as are extended attributes.
package rootfs

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits bound what an image may unpack to.
type Limits struct {
	// Bytes of file content, over all layers.
	Bytes int64
	// Entries in all layers together.
	Entries int
}

// DefaultLimits are those of a Fly machine's root disk (8 GB), and more files than any sane image has.
var DefaultLimits = Limits{Bytes: 8 << 30, Entries: 2_000_000}

// ErrTooBig is wrapped by errors about an image over its Limits.
var ErrTooBig = errors.New("the image unpacks to more than is allowed")

// Options say how layers are applied.
type Options struct {
	// Owners applies the layers' user and group ids; otherwise everything belongs to the caller, every directory
	// stays writable by it, and the ids are only told in Report.Owners.
	Owners bool
	Limits Limits
}

// Report tells what was unpacked.
type Report struct {
	Bytes   int64
	Entries int
	// Owners maps paths to "uid:gid" where the image's owner is not 0:0 and was not applied.
	Owners map[string]string `json:",omitempty"`
	// Skipped counts device nodes, FIFOs and other entries that were left out.
	Skipped int `json:",omitempty"`
}

// Unpack applies a stream of layers, as WriteLayers frames it, to an empty directory.
func Unpack(dir string, layers io.Reader, o Options) (Report, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Report{}, fmt.Errorf("open the image's root: %w", err)
	}
	defer root.Close()
	u := &unpacker{root: root, options: o}
	frames := newLayerReader(layers)
	for n := 1; ; n++ {
		layer, err := frames.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.apply(layer)
		}
		if err != nil {
			return u.report, fmt.Errorf("layer %d: %w", n, err)
		}
	}
	if err := u.finish(); err != nil {
		return u.report, err
	}
	return u.report, nil
}
