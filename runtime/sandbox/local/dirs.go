package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// ReadDir lists a directory.
func (s *Sandbox) ReadDir(ctx context.Context, name string) ([]sandbox.Info, error) {
	return once(ctx, s, call("ReadDir", s.dir, name), func() ([]sandbox.Info, error) {
		path, err := s.at(name)
		if err != nil {
			return nil, fault("list", name, err)
		}
		all, err := list(path)
		return all, fault("list", name, err)
	})
}

func list(path string) ([]sandbox.Info, error) {
	// A fifo must not be waited for.
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	all := make([]sandbox.Info, 0, len(names))
	for _, name := range names {
		info, err := os.Lstat(path + "/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, infoOf(info))
		all[len(all)-1].Name = name
	}
	return all, nil
}

// Mkdir makes a directory.
func (s *Sandbox) Mkdir(ctx context.Context, name string, o sandbox.MkdirOptions) error {
	_, err := once(ctx, s, call("Mkdir", s.dir, name, fmt.Sprint(o)), func() (struct{}, error) {
		return struct{}{}, s.mkdir(name, o)
	})
	return err
}

func (p place) mkdir(name string, o sandbox.MkdirOptions) error {
	path, err := p.at(name)
	if err == nil && o.Parents {
		err = makeParents(parentOf(path))
	}
	if err == nil {
		err = makeDir(path, cmp.Or(o.Mode.Perm(), 0o755))
	}
	if o.Parents && errors.Is(err, fs.ErrExist) && isDir(path) {
		err = nil
	}
	return fault("mkdir", name, err)
}

// makeDir makes a directory with exactly a mode, whatever the umask is.
func makeDir(path string, perm fs.FileMode) error {
	if err := os.Mkdir(path, perm); err != nil {
		return err
	}
	return os.Chmod(path, perm)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// makeParents makes a directory and what is missing above it. From above, as the kernel walks: a ".." behind a
// link is not the directory before it.
func makeParents(path string) error {
	if isDir(path) {
		return nil
	}
	for at := 1; at < len(path); {
		end := strings.IndexByte(path[at:], '/')
		if end < 0 {
			end = len(path) - at
		}
		at += end
		if err := makeDir(path[:at], 0o755); err != nil && !errors.Is(err, fs.ErrExist) && !isDir(path[:at]) {
			return err
		}
		at++
	}
	return dirOr(path)
}

// dirOr is nil for a directory, and why a path is none.
func dirOr(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return syscall.ENOTDIR
	}
	return err
}
