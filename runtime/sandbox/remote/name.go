package remote

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// mostName is the longest name, by the kernel's PATH_MAX less the final NUL.
const mostName = 4095

// checkName refuses what no kernel would take.
func checkName(name string) error {
	switch {
	case name == "", strings.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	case len(name) > mostName:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// spell is a name as scripts get it: the same path, without two slashes in a row, which end records, and without a first
// byte that a program could take for an option or an operator.
func spell(name string) string {
	if strings.Contains(name, "//") {
		var b strings.Builder
		for i := range len(name) {
			if name[i] != '/' || i == 0 || name[i-1] != '/' {
				b.WriteByte(name[i])
			}
		}
		name = b.String()
	}
	c := name[0]
	plain := c == '/' || c == '.' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
	if !plain {
		name = "./" + name
	}
	return name
}

// climbs says whether a name has "..", which may make it another name of any other file.
func climbs(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }

// apart tells an error about a file from one that keeps the machine from answering at all.
func apart(err error) (file, machine error) {
	var wrong *fs.PathError
	if err == nil || errors.As(err, &wrong) {
		return err, nil
	}
	return nil, err
}

// start is where a script that works on a name starts: a name from the root needs no Dir.
func (o operation) start(name string) string {
	if path.IsAbs(name) {
		return "/"
	}
	return o.dir
}

// about puts a name to an errno; what keeps the machine from answering stays as it is.
func (o operation) about(name string, err error) error {
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // only a bare one is about the file
		return &fs.PathError{Op: o.op, Path: name, Err: errno}
	}
	if errors.Is(err, syscall.EIO) {
		return &fs.PathError{Op: o.op, Path: name, Err: err}
	}
	return err
}
