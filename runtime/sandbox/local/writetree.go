package local

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// WriteTree makes the entries of a tar stream below a directory.
func (s *Sandbox) WriteTree(ctx context.Context, name string, r io.Reader, o sandbox.TreeOptions) error {
	var sum [sha256.Size]byte
	h := sha256.New()
	mine := false
	first, err := once(ctx, s, call("WriteTree", s.dir, name), func() (unpacked, error) {
		mine = true
		err := s.writeTree(ctx, name, io.TeeReader(r, h), o)
		h.Sum(sum[:0])
		return unpacked{sum: sum, known: true}, err
	})
	if mine || !first.known {
		return err
	}
	// The same call is one with the same stream.
	m := newReadMeter(ctx, r, o)
	if _, copyErr := io.Copy(h, m); copyErr != nil {
		return fmt.Errorf("read an archive: %w", copyErr)
	}
	m.finish()
	if h.Sum(sum[:0]); sum != first.sum {
		return sandbox.ErrConflict
	}
	return err
}

// unpacked is what is remembered of an archive.
type unpacked struct {
	sum   [sha256.Size]byte
	known bool
}

// treeWriter makes one archive's entries. All paths are walked from root, which no link leads out of.
type treeWriter struct {
	root *os.Root
	errs sandbox.TreeError
	// modes of directories are set at the end: one that may not be written would keep its own entries out.
	modes []tar.Header
}

func (p place) writeTree(ctx context.Context, name string, r io.Reader, o sandbox.TreeOptions) error {
	dir, err := p.at(name)
	if err != nil {
		return fault("write tree", name, err)
	}
	made := !isDir(dir)
	if err := makeParents(dir + "/."); err != nil {
		return fault("write tree", name, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault("write tree", name, err)
	}
	defer root.Close()
	m := newReadMeter(ctx, r, o)
	w := &treeWriter{root: root}
	err = w.all(ctx, tar.NewReader(m), made)
	if err == nil {
		// Padding after the end belongs to the stream.
		_, err = io.Copy(io.Discard, m)
	}
	w.setModes()
	m.finish()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("read an archive: %w", err)
	case len(w.errs.Failed) > 0:
		return &w.errs
	}
	return nil
}

// all makes entry after entry. Its error is the stream's.
func (w *treeWriter) all(ctx context.Context, r *tar.Reader, made bool) error {
	for {
		if err := ended(ctx); err != nil {
			return err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return err
		}
		source := &entryReader{Reader: r}
		err = w.entry(h, source, made)
		if source.err != nil {
			return source.err
		}
		if err != nil {
			w.errs.Add(fault("write tree", h.Name, err))
		}
	}
}

// entryReader tells an error of the stream from one of the file.
type entryReader struct {
	io.Reader
	err error
}

func (e *entryReader) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

func (w *treeWriter) entry(h *tar.Header, content io.Reader, made bool) error {
	if !inside(h.Name) {
		return syscall.EINVAL
	}
	name := path.Clean(h.Name)
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return syscall.EINVAL
		}
		if made {
			w.later(name, h)
		}
		return nil
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo, tar.TypeLink, tar.TypeGNUSparse:
	default:
		return syscall.EINVAL
	}
	if err := w.root.MkdirAll(path.Dir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return w.dir(name, h)
	}
	beside := path.Join(path.Dir(name), temporary())
	err := w.make(beside, h, content)
	if err == nil {
		err = w.root.Rename(beside, name)
	}
	if err == nil && h.Typeflag == tar.TypeLink {
		// Renaming one name of a file to another of its names does nothing, and leaves both.
		err = ignoreAbsent(w.root.Remove(beside))
	}
	if err != nil {
		_ = w.root.Remove(beside)
	}
	return err
}

func (w *treeWriter) dir(name string, h *tar.Header) error {
	err := w.root.Mkdir(name, 0o700)
	if err == nil {
		w.later(name, h)
		return nil
	}
	if info, statErr := w.root.Lstat(name); statErr == nil && info.IsDir() {
		return nil
	}
	return err
}

// make makes an entry under a name that is free.
func (w *treeWriter) make(name string, h *tar.Header, content io.Reader) error {
	perm := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeSymlink:
		return w.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		if !inside(h.Linkname) {
			return syscall.EINVAL
		}
		return w.root.Link(path.Clean(h.Linkname), name)
	case tar.TypeFifo:
		return w.fifo(name, perm)
	}
	f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Chmod(perm)
	}
	return errors.Join(err, f.Close())
}

func (w *treeWriter) fifo(name string, perm fs.FileMode) error {
	dir, err := w.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := mkfifoIn(dir, path.Base(name)); err != nil {
		return err
	}
	return w.root.Chmod(name, perm)
}

func (w *treeWriter) later(name string, h *tar.Header) {
	w.modes = append(w.modes, tar.Header{Name: name, Mode: int64(h.FileInfo().Mode().Perm())})
}

// setModes goes from the deepest directory up to the root, whose name would sort anywhere.
func (w *treeWriter) setModes() {
	slices.SortFunc(w.modes, func(a, b tar.Header) int {
		return cmp.Or(cmpBool(a.Name == ".", b.Name == "."), strings.Compare(b.Name, a.Name))
	})
	for _, h := range w.modes {
		if err := w.root.Chmod(h.Name, fs.FileMode(h.Mode)); err != nil {
			w.errs.Add(fault("write tree", h.Name, err))
		}
	}
}

// cmpBool puts false first.
func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
