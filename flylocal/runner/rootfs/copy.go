package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"
)

// Copy copies the tree in src into the empty directory dst: files, directories, links, with modes, times and, when
// owners is set, owners. It is the way to a writable root where the kernel has no overlay for it.
func Copy(src, dst string, owners bool) error {
	from, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer to.Close()
	c := copier{from: from, to: to, owners: owners, linked: map[uint64]string{}}
	if err := c.directory("."); err != nil {
		return fmt.Errorf("copy the image's root: %w", err)
	}
	return nil
}

type copier struct {
	from, to *os.Root
	owners   bool
	// linked maps inodes with several names to the first copied one.
	linked map[uint64]string
}

func (c *copier) directory(dir string) error {
	f, err := c.from.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		info, err := c.from.Lstat(name)
		if err == nil {
			err = c.entry(name, info)
		}
		if err != nil {
			return err
		}
	}
	info, err := c.from.Lstat(dir)
	if err != nil {
		return err
	}
	return c.metadata(dir, info)
}

func (c *copier) entry(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the system tells no inode", name)
	}
	if !info.IsDir() && st.Nlink > 1 {
		if first, ok := c.linked[st.Ino]; ok {
			return c.to.Link(first, name)
		}
		c.linked[st.Ino] = name
	}
	switch {
	case info.IsDir():
		if err := c.to.Mkdir(name, 0o700); err != nil {
			return err
		}
		return c.directory(name) // sets its metadata last
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := c.from.Readlink(name)
		if err != nil {
			return err
		}
		if err := c.to.Symlink(target, name); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if err := c.content(name); err != nil {
			return err
		}
	default:
		return nil
	}
	return c.metadata(name, info)
}

func (c *copier) content(name string) error {
	in, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (c *copier) metadata(name string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && c.owners {
		if err := c.to.Lchown(name, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if err := c.to.Chmod(name, info.Mode()); err != nil {
		return err
	}
	return c.to.Chtimes(name, time.Time{}, info.ModTime())
}

// Empty removes everything in dir, but not dir itself.
func Empty(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAll(root, n); err != nil {
			return err
		}
	}
	return nil
}

// removeAll also gets past directories whose mode keeps their own owner out.
func removeAll(root *os.Root, name string) error {
	if err := root.RemoveAll(name); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := openUp(root, name); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

func openUp(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	if err := root.Chmod(name, 0o700); err != nil {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := openUp(root, path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}
