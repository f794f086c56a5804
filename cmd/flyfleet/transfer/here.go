package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// here is the end on this computer. No name and no link leads out of its root.
type here struct {
	root *os.Root
	tag  string
}

func (h *here) list(ctx context.Context, failed func(string, error)) ([]entry, error) {
	top, err := h.at(".")
	if err != nil {
		return nil, err
	}
	out := []entry{top}
	// The list is its own queue: directories are read in the order in which they came.
	for i := 0; i < len(out); i++ {
		if out[i].kind != directory {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		names, err := h.names(out[i].name)
		if err != nil {
			failed(out[i].name, bare(err))
		}
		for _, name := range names {
			e, err := h.at(path.Join(out[i].name, name))
			switch {
			case err != nil:
				failed(path.Join(out[i].name, name), bare(err))
			case e.kind != absent:
				out = append(out, e)
			}
		}
	}
	return out, nil
}

func (h *here) names(directory string) ([]string, error) {
	d, err := h.root.Open(directory)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (h *here) at(name string) (entry, error) {
	e := entry{name: name}
	info, err := h.root.Lstat(name)
	if gone(err) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	e.kind, e.mode, e.modified = kindOf(info.Mode()), info.Mode().Perm(), second(info.ModTime())
	switch e.kind {
	case file:
		e.size = info.Size()
	case link:
		e.target, err = h.root.Readlink(name)
	}
	return e, err
}

// gone reports whether an error says that nothing is there.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func (h *here) look(_ context.Context, names []string) ([]entry, error) {
	out := make([]entry, len(names))
	for i, name := range names {
		var err error
		if out[i], err = h.at(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (h *here) open(name string) (*os.File, error) {
	// A fifo in a file's place must not hold the copy up.
	return h.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

func (h *here) readMany(ctx context.Context, entries []entry) ([]content, error) {
	out := make([]content, len(entries))
	for i, e := range entries {
		out[i].entry = e
		out[i].data, out[i].err = h.read(ctx, e.name, 0, 2*smallFile)
		if err := out[i].err; err == nil && len(out[i].data) == 2*smallFile {
			out[i].err = errDiffers
		}
		out[i].err = bare(out[i].err)
	}
	return out, nil
}

func (h *here) read(ctx context.Context, name string, offset, limit int64) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f, err := h.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, offset, limit))
}

func (h *here) hash(ctx context.Context, entries []entry) ([]string, error) {
	out := make([]string, len(entries))
	for i, e := range entries {
		sum, err := h.sum(ctx, e)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err == nil {
			out[i] = sum
		}
	}
	return out, nil
}

func (h *here) sum(ctx context.Context, e entry) (string, error) {
	f, err := h.open(e.name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := sha256.New()
	for left := e.size; left > 0; {
		n, err := io.CopyN(s, f, min(left, pieceBytes))
		if left -= n; err != nil {
			break
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return hex.EncodeToString(s.Sum(nil)), nil
}

func (h *here) mkdirs(_ context.Context, names []string) error {
	for _, name := range names {
		if name == "." {
			continue
		}
		err := h.root.Mkdir(name, 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// A link to a directory inside is as good as one; the root refuses any other.
		info, err := h.root.Stat(name)
		switch {
		case err != nil:
			return err
		case !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		case info.Mode().Perm()&0o300 != 0o300:
			if err := h.root.Chmod(name, info.Mode().Perm()|0o700); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *here) writeMany(ctx context.Context, _ string, files []content, failed func(string, error)) error {
	for _, f := range files {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := partOf(h.tag, f.name)
		err := h.write(ctx, part, 0, f.data, true)
		if err == nil {
			err = h.place(part, f.entry)
		}
		if err == nil {
			continue
		}
		_ = h.root.Remove(part)
		if errors.Is(err, syscall.ENOSPC) {
			return err
		}
		failed(f.name, bare(err))
	}
	return nil
}

func (h *here) write(_ context.Context, part string, offset int64, data []byte, first bool) error {
	flags := os.O_WRONLY | syscall.O_NOFOLLOW
	if first {
		if err := h.root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := h.root.OpenFile(part, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, offset)
	return errors.Join(err, f.Close())
}

func (h *here) finish(ctx context.Context, part string, e entry, sum string) error {
	info, err := h.root.Lstat(part)
	if err != nil {
		return err
	}
	got, err := h.sum(ctx, entry{name: part, size: info.Size()})
	if err != nil {
		return err
	}
	if got != sum {
		return errors.Join(errDiffers, h.root.Remove(part))
	}
	f, err := h.root.OpenFile(part, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return h.place(part, e)
}

// place gives a whole part file its mode, time and name.
func (h *here) place(part string, e entry) error {
	if at, err := h.at(e.name); err == nil && at.kind == directory {
		return &fs.PathError{Op: "write", Path: e.name, Err: syscall.EISDIR}
	}
	if err := h.root.Chmod(part, e.mode); err != nil {
		return err
	}
	if err := h.root.Chtimes(part, e.modified, e.modified); err != nil {
		return err
	}
	return h.root.Rename(part, e.name)
}

func (h *here) link(_ context.Context, entries []entry, failed func(string, error)) error {
	part := partPrefix + h.tag + "-link"
	for _, e := range entries {
		if at, err := h.at(e.name); err == nil && at.kind == directory {
			failed(e.name, syscall.EISDIR)
			continue
		}
		_ = h.root.Remove(part)
		err := h.root.Symlink(e.target, part)
		if err == nil {
			err = h.root.Rename(part, e.name)
		}
		if err != nil {
			failed(e.name, fmt.Errorf("link: %w", errors.Unwrap(err)))
		}
	}
	return nil
}

func (h *here) touch(_ context.Context, entries []entry, failed func(string, error)) error {
	for _, e := range entries {
		err := h.root.Chmod(e.name, e.mode)
		if err == nil {
			err = h.root.Chtimes(e.name, e.modified, e.modified)
		}
		if err != nil {
			failed(e.name, bare(err))
		}
	}
	return nil
}

// sweep has nothing to do: nothing is staged here.
func (h *here) sweep(context.Context, string) error { return nil }
