package local

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// mostName is PATH_MAX without the final NUL.
const mostName = 4095

// place is a directory that names start in.
type place struct{ dir string }

// at is the path of a name. It is not cleaned: what a link and two dots mean together, and a slash at the
// end, is the kernel's to say.
func (p place) at(name string) (string, error) {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return "", syscall.EINVAL
	case len(name) > mostName:
		return "", syscall.ENAMETOOLONG
	case name[0] == '/':
		return name, nil
	}
	return strings.TrimSuffix(p.dir, "/") + "/" + name, nil
}

// fault is a failed operation as callers see it: about the name that they gave, with the kernel's number.
func fault(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: number(err)}
}

// number finds the kernel's number in an error. The os package has errors of its own for a few cases.
func number(err error) syscall.Errno {
	var n syscall.Errno
	switch {
	case errors.As(err, &n):
		return n
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrExist):
		return syscall.EEXIST
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	// Among them os.Root's "path escapes from parent".
	return syscall.EINVAL
}

// lastOf is the last element of a name.
func lastOf(name string) string {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" {
		return "/"
	}
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}
