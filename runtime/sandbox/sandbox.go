// Package sandbox is the seam between a runtime and the computers that its sessions work on: nine verbs,
// and batches of them. A runtime sees machines through it only, so what it promises here is all that a
// tool may rely on. Package local works on this computer, package remote on a machine over the wire;
// package sandboxtest proves a backend.
//
// # Names
//
// A name is bytes in a string: no encoding is assumed, and what a listing returns can be used as it is. A
// relative name starts at Dir. Names are never read by a shell. An empty name, one with a NUL byte, and
// one over 4095 bytes fail with EINVAL or ENAMETOOLONG before anything is done.
//
// # Errors
//
// A file operation that fails returns an *fs.PathError whose Path is the name as it was given and whose Err
// is a syscall.Errno as the kernel gave it or would have given it, so that errors.Is works with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission
// and with syscall.ENOTDIR, EISDIR, ENOTEMPTY, ELOOP, ENAMETOOLONG, ENOSPC. What keeps a computer from
// answering at all is an error of this package (errors.go) on every verb. The end of a context returns
// context.Cause. No error, and no log line of a backend, holds content or environment values.
//
// # Concurrency
//
// All methods may be called from many goroutines.
package sandbox

import (
	"context"
)

// Sandbox is a computer as one session sees it.
type Sandbox interface {
	Commands
	Files
	Batches

	// Dir is the absolute directory that relative names and commands start in.
	Dir() string
	// In is the same sandbox with another Dir; a relative one starts at the present Dir. It asks
	// nobody: a directory that is missing fails where it is used.
	In(dir string) Sandbox
	// Once is a view for one operation that must not be done twice: the first call on it is done under
	// this id, and a repeat of the same call on a view with the same id returns what the first returned
	// and changes nothing, also when the first caller's answer was lost, and from another process where
	// the backend outlives one. Another call under the id is ErrConflict. The id is a UUIDv7; backends
	// keep it for 24 hours at least, or for their own life if that is shorter.
	Once(id string) Sandbox
	// Describe says which computer answers.
	Describe(ctx context.Context) (Description, error)
}

// Description is what a sandbox knows of its computer.
type Description struct {
	// Epoch is one life of the computer: it changes when running commands can have been lost.
	Epoch string
	// User runs the commands.
	User string
	// Durable: files and records survive a restart of the computer.
	Durable bool
	// Streams is how many commands may be followed at the same time; 0 is not limited.
	Streams int
}
