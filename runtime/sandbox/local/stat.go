package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Stat follows links and tells of the path itself whether it is one.
func (s *Sandbox) Stat(ctx context.Context, name string) (sandbox.Info, error) {
	return once(ctx, s, call("Stat", s.dir, name), func() (sandbox.Info, error) { return s.stat(name) })
}

// StatMany is Stat for each name.
func (s *Sandbox) StatMany(ctx context.Context, names []string) ([]sandbox.Stated, error) {
	return once(ctx, s, call("StatMany", append([]string{s.dir}, names...)...), func() ([]sandbox.Stated, error) {
		all := make([]sandbox.Stated, len(names))
		for i, name := range names {
			if err := ended(ctx); err != nil {
				return nil, err
			}
			all[i].Info, all[i].Err = s.stat(name)
		}
		return all, nil
	})
}

// Exists says whether something is there.
func (s *Sandbox) Exists(ctx context.Context, name string) (bool, error) {
	return once(ctx, s, call("Exists", s.dir, name), func() (bool, error) {
		path, err := s.at(name)
		if err == nil {
			_, err = os.Lstat(path)
		}
		if err != nil && absent(err) {
			return false, nil
		}
		return err == nil, fault("exists", name, err)
	})
}

// absent says whether an error means that nothing is there.
func absent(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func (p place) stat(name string) (sandbox.Info, error) {
	path, err := p.at(name)
	if err != nil {
		return sandbox.Info{}, fault("stat", name, err)
	}
	info, err := statPath(path)
	if err != nil {
		return sandbox.Info{}, fault("stat", name, err)
	}
	info.Name = lastOf(name)
	return info, nil
}

func statPath(path string) (sandbox.Info, error) {
	own, err := os.Lstat(path)
	if err != nil {
		return sandbox.Info{}, err
	}
	if own.Mode().Type() != fs.ModeSymlink {
		return infoOf(own), nil
	}
	reached, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		reached = own
	case err != nil:
		return sandbox.Info{}, err
	}
	info := infoOf(reached)
	info.IsSymlink = true
	return info, nil
}

// infoOf describes what was reached, by the kernel's own fields.
func infoOf(f fs.FileInfo) sandbox.Info {
	info := sandbox.Info{
		Name: f.Name(), Mode: f.Mode(), Modified: time.Unix(f.ModTime().Unix(), 0), IsSymlink: f.Mode().Type() == fs.ModeSymlink,
	}
	if f.Mode().IsRegular() {
		info.Size = f.Size()
	}
	if st, ok := f.Sys().(*syscall.Stat_t); ok {
		info.Links, info.UID, info.GID = int(st.Nlink), int(st.Uid), int(st.Gid)
	}
	return info
}
