// Package process is the runner for computers without user namespaces. It isolates nothing: a machine's programs run
// as the person who started the platform, on the computer's own files and network. Paths that an image takes for
// granted are translated instead:
//
//	the entrypoint      is run from the unpacked image, if it is in there
//	FLYFLEET_LISTEN     names a free loopback port; Dial of port 8080 leads there
//	FLYFLEET_DATA       is the volume's directory
//	FLYFLEET_RUN        is a short directory of the machine's own
//	PATH                is the computer's
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/imagecache"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

// Runner is the process runner.
type Runner struct {
	cfg    runner.Config
	images *imagecache.Cache
	ports  ports
}

// New makes the runner. It works on every Unix.
func New(_ context.Context, cfg runner.Config) (runner.Runner, error) {
	if err := machineinit.Check(); err != nil {
		return nil, err
	}
	images, err := imagecache.Open(filepath.Join(cfg.CacheDir, "process"), rootfs.Empty)
	if err != nil {
		return nil, err
	}
	cfg.Log.Warn("the process runner isolates nothing: machines run as you, on this computer's files and network")
	return &Runner{cfg: cfg, images: images, ports: ports{taken: map[int]bool{}}}, nil
}

// Name is "process".
func (r *Runner) Name() string { return "process" }

// Level is "process".
func (r *Runner) Level() string { return r.Name() }

// Close has nothing to end.
func (r *Runner) Close() error { return nil }

// Cleanup removes a machine's directory.
func (r *Runner) Cleanup(_ context.Context, dir string) error { return remove(dir) }

// RemoveVolume removes a volume's directory.
func (r *Runner) RemoveVolume(_ context.Context, dir string) error { return remove(dir) }

func remove(dir string) error {
	if err := rootfs.Empty(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(dir)
}

// unpacked returns the image's cached root.
func (r *Runner) unpacked(ctx context.Context, spec runner.Spec) (string, error) {
	if spec.Image == nil {
		return "", errors.New("there is no image")
	}
	return r.images.Get(ctx, spec.ImageDigest, func(dir string) error {
		layers, err := spec.Image.Layers()
		if err != nil {
			return fmt.Errorf("list the layers: %w", err)
		}
		var sources []rootfs.Layer
		for _, l := range layers {
			sources = append(sources, l)
		}
		read, write := io.Pipe()
		written := make(chan error, 1)
		go func() {
			err := rootfs.WriteLayers(write, sources)
			write.CloseWithError(err)
			written <- err
		}()
		report, err := rootfs.Unpack(dir, read, rootfs.Options{})
		read.CloseWithError(errors.New("unpacking has ended"))
		werr := <-written
		if err != nil {
			return errors.Join(err, werr)
		}
		r.cfg.Log.Info("image unpacked", "image", spec.ImageRef, "bytes", report.Bytes, "entries", report.Entries, "skipped", report.Skipped)
		return nil
	})
}

var _ runner.Runner = (*Runner)(nil)
