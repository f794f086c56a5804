package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// benches are places for the stage's own mounts; the first that can be mounted on is used. What they hold on the host
// is not needed in this namespace any more: sources have been pinned, and the rest comes from /usr and /etc.
var benches = []string{"/tmp", "/var/tmp", "/mnt", "/run"}

// workbench mounts an empty file system of this namespace's own, where a machine's parts are put together.
func (s *stage) workbench() error {
	var failures []error
	for _, dir := range benches {
		err := unix.Mount("flylocal", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755")
		if err == nil {
			s.bench = dir
			return nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", dir, err))
	}
	return fmt.Errorf("mount a work place: %w", errors.Join(failures...))
}

// OpenTree makes a detached copy of the mount that path is on, from path down. It needs CAP_SYS_ADMIN over the mount
// namespace: real root has it, and so has a stage in its own.
func OpenTree(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("take the directory tree %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// pin turns sources that are paths into detached mounts, while the paths can still be walked.
func (s *stage) pin(sources ...*Source) error {
	for _, src := range sources {
		if src.File >= 0 {
			continue
		}
		f, err := OpenTree(src.Path)
		if err != nil {
			return err
		}
		src.File = len(s.files)
		s.files = append(s.files, f)
	}
	return nil
}

// attach puts a source on the workbench and returns where it is.
func (s *stage) attach(src Source, name string) (string, error) {
	at := filepath.Join(s.bench, name)
	f, err := s.file(src.File)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if info.IsDir() {
		err = os.Mkdir(at, 0o700)
	} else {
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return "", err
	}
	if err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return "", fmt.Errorf("attach the %s: %w", name, err)
	}
	return at, nil
}

func (s *stage) file(index int) (*os.File, error) {
	if index < 0 || index >= len(s.files) {
		return nil, fmt.Errorf("file %d is not beside the request", index)
	}
	return s.files[index], nil
}
