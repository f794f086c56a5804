package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// WriteFile replaces a file with the content, or makes it.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content []byte, o sandbox.WriteOptions) error {
	told := func(d *digest) {
		d.words("WriteFile", s.dir, name, o.Mode.String())
		d.bytes(content)
	}
	_, err := once(ctx, s, told, func() (struct{}, error) {
		return struct{}{}, s.write(name, content, o.Mode)
	})
	return err
}

// WriteFiles is WriteFile for each file.
func (s *Sandbox) WriteFiles(ctx context.Context, files []sandbox.File) ([]error, error) {
	told := func(d *digest) {
		d.words("WriteFiles", s.dir)
		for _, f := range files {
			d.words(f.Name, f.Mode.String())
			d.bytes(f.Content)
		}
	}
	return once(ctx, s, told, func() ([]error, error) {
		all := make([]error, len(files))
		for i, f := range files {
			if err := ended(ctx); err != nil {
				return nil, err
			}
			all[i] = s.write(f.Name, f.Content, f.Mode)
		}
		return all, nil
	})
}

func (p place) write(name string, content []byte, mode fs.FileMode) error {
	path, err := p.at(name)
	if err == nil && len(content) > sandbox.MaxWrite {
		err = syscall.EFBIG
	}
	if err == nil {
		err = replace(path, content, mode)
	}
	return fault("write", name, err)
}

// mostLinks is how many links in a row the kernel follows.
const mostLinks = 40

// target follows the links that a path itself is, to what a write replaces. info is nil when nothing is there.
func target(path string) (string, fs.FileInfo, error) {
	for range mostLinks {
		info, err := os.Lstat(path)
		if errors.Is(err, syscall.ENOENT) {
			return path, nil, nil
		}
		if err != nil {
			return "", nil, err
		}
		if info.Mode().Type() != fs.ModeSymlink {
			return path, info, nil
		}
		next, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		if !strings.HasPrefix(next, "/") {
			next = parentOf(path) + "/" + next
		}
		path = next
	}
	return "", nil, syscall.ELOOP
}

// parentOf is the directory of a path, uncleaned.
func parentOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[:max(0, strings.LastIndexByte(path, '/'))] + "/."
}

func replace(path string, content []byte, mode fs.FileMode) error {
	path, info, err := target(path)
	if err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if info != nil {
		switch {
		case info.IsDir():
			return syscall.EISDIR
		case !info.Mode().IsRegular():
			return syscall.EINVAL
		}
		perm = info.Mode().Perm()
	} else {
		if last := lastOf(path); strings.HasSuffix(path, "/") || last == "." || last == ".." {
			return syscall.EISDIR
		}
		if err := makeParents(parentOf(path)); err != nil {
			return err
		}
	}
	if mode != 0 {
		perm = mode.Perm()
	}
	return writeBeside(path, content, perm)
}

// writeBeside writes to a new file in the same directory, and renames it: at each moment the path has one
// content or the other.
func writeBeside(path string, content []byte, perm fs.FileMode) error {
	beside := parentOf(path) + "/" + temporary()
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		// Apart from the mode of the open call, which the umask would cut.
		err = f.Chmod(perm)
	}
	// Some file systems tell of a full disk only now.
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
}

// temporary is a name that nobody else takes.
func temporary() string { return ".flyfleet-" + rand.Text() }
