package local

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// ReadTree writes a directory's tree, or one file, as a tar stream.
func (s *Sandbox) ReadTree(ctx context.Context, name string, w io.Writer, o sandbox.TreeOptions) error {
	if s.once == "" {
		_, err := once(ctx, s, nil, func() (struct{}, error) { return struct{}{}, s.readTree(ctx, name, w, o) })
		return err
	}
	r, err := once(ctx, s, call("ReadTree", s.dir, name), func() (*recording, error) {
		r := s.newRecording()
		err := s.readTree(ctx, name, r, sandbox.TreeOptions{})
		if r.err != nil {
			err = r.err
		}
		return r, err
	})
	if r == nil {
		return err
	}
	return errors.Join(r.play(newMeter(ctx, w, o)), err)
}

// treeReader writes one archive.
type treeReader struct {
	ctx  context.Context
	root *os.Root
	tar  *tar.Writer
	errs sandbox.TreeError
	buf  []byte
}

func (p place) readTree(ctx context.Context, name string, w io.Writer, o sandbox.TreeOptions) error {
	path, err := p.at(name)
	if err != nil {
		return fault("read tree", name, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fault("read tree", name, err)
	}
	first := "."
	if !info.IsDir() {
		if path, _, err = target(path); err != nil {
			return fault("read tree", name, err)
		}
		first, path = lastOf(path), parentOf(path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fault("read tree", name, err)
	}
	defer root.Close()
	m := newMeter(ctx, w, o)
	r := &treeReader{ctx: ctx, root: root, tar: tar.NewWriter(m), buf: make([]byte, 256<<10)}
	if first == "." {
		err = r.entry(".", ".")
	} else {
		err = r.entry(first, lastOf(name))
	}
	if err == nil {
		err = r.tar.Close()
	}
	m.finish()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("write an archive: %w", err)
	case len(r.errs.Failed) > 0:
		return &r.errs
	}
	return nil
}

// fail notes what could not be read. Its name is the archive's.
func (r *treeReader) fail(name string, err error) { r.errs.Add(fault("read tree", name, err)) }

// entry writes what is at a path, and all below it, under a name. Its error is the writer's or the context's.
func (r *treeReader) entry(path, name string) error {
	if err := ended(r.ctx); err != nil {
		return err
	}
	info, err := r.root.Lstat(path)
	if err != nil {
		r.fail(name, err)
		return nil
	}
	h := &tar.Header{Name: name, Mode: int64(unixMode(info.Mode())), ModTime: time.Unix(info.ModTime().Unix(), 0), Format: tar.FormatGNU}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		h.Uid, h.Gid = int(st.Uid), int(st.Gid)
	}
	switch info.Mode().Type() {
	case 0:
		return r.file(path, h)
	case fs.ModeDir:
		return r.dir(path, h)
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = r.root.Readlink(path); err != nil {
			r.fail(name, err)
			return nil
		}
	case fs.ModeNamedPipe:
		h.Typeflag = tar.TypeFifo
	case fs.ModeSocket:
		return nil
	default:
		r.fail(name, syscall.EINVAL)
		return nil
	}
	return r.tar.WriteHeader(h)
}

func (r *treeReader) dir(path string, h *tar.Header) error {
	name := h.Name
	h.Typeflag, h.Name = tar.TypeDir, name+"/"
	d, err := r.root.Open(path)
	if err != nil {
		// The directory itself is there to see.
		r.fail(name, err)
		return r.tar.WriteHeader(h)
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		r.fail(name, err)
	}
	if err := r.tar.WriteHeader(h); err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		below := n
		if name != "." {
			below = name + "/" + n
		}
		if err := r.entry(below, below); err != nil {
			return err
		}
	}
	return nil
}

// file writes a file as long as it was when it was opened.
func (r *treeReader) file(path string, h *tar.Header) error {
	f, err := r.root.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		r.fail(h.Name, err)
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = syscall.EINVAL
	}
	if err != nil {
		r.fail(h.Name, err)
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := r.tar.WriteHeader(h); err != nil {
		return err
	}
	left := h.Size
	for left > 0 {
		if err := ended(r.ctx); err != nil {
			return err
		}
		n, err := f.Read(r.buf[:min(left, int64(len(r.buf)))])
		if _, werr := r.tar.Write(r.buf[:n]); werr != nil {
			return werr
		}
		left -= int64(n)
		if err != nil {
			// It shrank, or cannot be read: the archive stays valid, with zeros.
			r.fail(h.Name, shrunk(err))
			return r.zeros(left)
		}
	}
	return nil
}

func shrunk(err error) error {
	if errors.Is(err, io.EOF) {
		return syscall.EIO
	}
	return err
}

func (r *treeReader) zeros(n int64) error {
	clear(r.buf)
	for n > 0 {
		w, err := r.tar.Write(r.buf[:min(n, int64(len(r.buf)))])
		if err != nil {
			return err
		}
		n -= int64(w)
	}
	return nil
}

// unixMode is a mode's permission bits with setuid, setgid and sticky, as the kernel has them.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for bit, unixBit := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			bits |= unixBit
		}
	}
	return bits
}

// inside says whether an archive's name stays below its root by its words.
func inside(name string) bool {
	if name == "" || strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return false
	}
	return !slices.Contains(strings.Split(name, "/"), "..")
}
