package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Remove removes a file, a link or a directory.
func (s *Sandbox) Remove(ctx context.Context, name string, o sandbox.RemoveOptions) error {
	_, err := once(ctx, s, call("Remove", s.dir, name, fmt.Sprint(o)), func() (struct{}, error) {
		return struct{}{}, s.remove(name, o)
	})
	return err
}

func (p place) remove(name string, o sandbox.RemoveOptions) error {
	path, err := p.at(name)
	if err != nil {
		return fault("remove", name, err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil && o.Force && absent(err):
		return nil
	case err != nil:
	case p.needs(path, info):
		err = syscall.EBUSY
	case !info.IsDir():
		err = syscall.Unlink(path)
	case o.Recursive:
		// It walks by open directories and never through a link.
		err = os.RemoveAll(strings.TrimRight(path, "/"))
	default:
		err = syscall.Rmdir(path)
		if errors.Is(err, fs.ErrExist) {
			err = syscall.ENOTEMPTY
		}
	}
	if o.Force && err != nil && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return fault("remove", name, err)
}

// needs says whether a path is the directory or one above it, by its words or in truth.
func (p place) needs(path string, info fs.FileInfo) bool {
	for dir := p.dir; ; dir = filepath.Dir(dir) {
		above, err := os.Stat(dir)
		if filepath.Clean(path) == dir || err == nil && os.SameFile(above, info) {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}
