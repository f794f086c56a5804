package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

// hostDirs are the directories beside /usr that hold programs and libraries: links into /usr on most systems of
// today, directories of their own on the others.
var hostDirs = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostFiles are what programs of /usr need outside of it.
var hostFiles = []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"}

// HasShell says whether an image brings a shell of its own.
func HasShell(root *os.Root) bool {
	for _, name := range []string{"/bin/sh", "/usr/bin/sh"} {
		dir, err := rootfs.Resolve(root, path.Dir(name))
		if err != nil {
			continue
		}
		// The shell may be a link to somewhere; that it is there says enough.
		if _, err := root.Lstat(path.Join(dir, path.Base(name))); err == nil {
			return true
		}
	}
	return false
}

// lendHostTools returns bubblewrap's arguments that put the host's /usr, read-only, over the image's, and makes the
// links to it that the image lacks. An image with a shell is left alone.
func lendHostTools(root *os.Root) ([]string, error) {
	if HasShell(root) {
		return nil, nil
	}
	if err := mountPoint(root, "/usr", true); err != nil {
		return nil, fmt.Errorf("lend the host's tools: %w", err)
	}
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, name := range hostDirs {
		more, err := lendDir(root, name)
		if err != nil {
			return nil, fmt.Errorf("lend the host's /%s: %w", name, err)
		}
		args = append(args, more...)
	}
	for _, name := range hostFiles {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		if _, err := root.Lstat(name[1:]); err == nil {
			continue
		}
		if err := mountPoint(root, name, info.IsDir()); err != nil {
			return nil, fmt.Errorf("lend the host's %s: %w", name, err)
		}
		args = append(args, "--ro-bind", name, name)
	}
	return args, nil
}

func lendDir(root *os.Root, name string) ([]string, error) {
	info, err := os.Lstat("/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		if err := mountPoint(root, "/"+name, true); err != nil {
			return nil, err
		}
		return []string{"--ro-bind", "/" + name, "/" + name}, nil
	}
	target, err := os.Readlink("/" + name)
	if err != nil {
		return nil, err
	}
	if _, err := root.Lstat(name); err != nil {
		return nil, root.Symlink(target, name)
	}
	switch name {
	case "bin":
		// The image's own programs stay; only the shell's well-known name is added.
		return nil, root.Symlink("/usr/bin/sh", "bin/sh")
	case "sbin":
		return nil, nil
	}
	// Programs of the host need its loader and libraries at these very names.
	if err := mountPoint(root, "/"+name, true); err != nil {
		return nil, err
	}
	return []string{"--ro-bind", path.Join("/", target), "/" + name}, nil
}
