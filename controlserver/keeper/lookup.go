//go:build linux

package keeper

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Texts of start failures name the step, never argv, env or cwd: they are stored and logged.
func failure(step wirev1.StartFailure, text string) *spool.Failure {
	return &spool.Failure{Step: step, Text: text}
}

// checkDir says whether the working directory can be one, for the order's user.
func checkDir(o *Order) *spool.Failure {
	info, err := os.Stat(o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure(wirev1.StartFailure_START_FAILURE_CWD, "the working directory does not exist")
	case errors.Is(err, fs.ErrPermission):
		return failure(wirev1.StartFailure_START_FAILURE_CWD, "the working directory cannot be reached")
	case err != nil:
		return failure(wirev1.StartFailure_START_FAILURE_CWD, "the working directory cannot be used")
	case !info.IsDir():
		return failure(wirev1.StartFailure_START_FAILURE_CWD, "the working directory is not a directory")
	case !mayExecute(info, o.User):
		return failure(wirev1.StartFailure_START_FAILURE_CWD, "the exec user may not enter the working directory")
	}
	return nil
}

// lookup finds the program of an order as execvp would: a name with a slash is a path from the working
// directory, another is searched in the child's own PATH.
func lookup(o *Order) (string, *spool.Failure) {
	name := string(o.Argv[0])
	if strings.Contains(name, "/") {
		return name, nil
	}
	found := false
	for _, dir := range filepath.SplitList(pathOf(o.Env)) {
		if dir == "" {
			dir = "."
		}
		candidate := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) {
			candidate = filepath.Join(o.Dir, dir, name)
		}
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		found = true
		if mayExecute(info, o.User) {
			return candidate, nil
		}
	}
	if found {
		return "", failure(wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE, "the program is not executable")
	}
	return "", failure(wirev1.StartFailure_START_FAILURE_NOT_FOUND, "the program was not found in PATH")
}

func pathOf(env [][]byte) string {
	path := ""
	for _, e := range env {
		if value, ok := bytes.CutPrefix(e, []byte("PATH=")); ok {
			path = string(value)
		}
	}
	return path
}

// mayExecute reads the mode bits as the kernel does for the user (nil: the keeper itself). Access lists
// it does not see; the kernel has the last word at exec.
func mayExecute(info fs.FileInfo, u *User) bool {
	mode := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return mode&0o111 != 0
	}
	uid, groups := uint32(os.Geteuid()), []uint32(nil)
	if u != nil {
		uid, groups = u.UID, append([]uint32{u.GID}, u.Groups...)
	} else {
		groups = append(groups, uint32(os.Getegid()))
		own, _ := os.Getgroups()
		for _, g := range own {
			groups = append(groups, uint32(g))
		}
	}
	if uid == 0 {
		return info.IsDir() || mode&0o111 != 0
	}
	if st.Uid == uid {
		return mode&0o100 != 0
	}
	for _, g := range groups {
		if st.Gid == g {
			return mode&0o010 != 0
		}
	}
	return mode&0o001 != 0
}

// execFailure names the step at which the kernel refused, from the error number alone: argv[0] exists
// by then, unless it held a slash.
func execFailure(err error) *spool.Failure {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return failure(wirev1.StartFailure_START_FAILURE_NOT_FOUND, "the program, or the interpreter it names, does not exist")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR),
		errors.Is(err, syscall.ETXTBSY), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ELIBBAD):
		return failure(wirev1.StartFailure_START_FAILURE_NOT_EXECUTABLE, "the program cannot be executed: "+errno(err))
	case errors.Is(err, syscall.E2BIG):
		return failure(wirev1.StartFailure_START_FAILURE_ARGUMENTS_TOO_LONG, "the arguments and environment are too long for the kernel; send content on stdin")
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EINVAL):
		return failure(wirev1.StartFailure_START_FAILURE_USER, "the exec user cannot be switched to: "+errno(err))
	}
	return failure(wirev1.StartFailure_START_FAILURE_RESOURCES, "the machine cannot start a process: "+errno(err))
}

// errno is an error's number as text, without the paths that an os error carries.
func errno(err error) string {
	var n syscall.Errno
	if errors.As(err, &n) {
		return n.Error()
	}
	return "unknown error"
}
