package sandbox

import (
	"context"
	"io/fs"
	"time"
)

// Files is seven of the nine verbs.
type Files interface {
	// ReadFile returns a part of a file, following links. A directory is EISDIR; a fifo, a socket or a device is
	// EINVAL and never waited for.
	ReadFile(ctx context.Context, name string, part Part) ([]byte, error)
	// WriteFile replaces a file with the content, or makes it: parents are made (0755), and whoever reads at that moment
	// gets the old content or the new one, whole. An existing file keeps its permissions unless a mode is given, but loses setuid and
	// setgid, as by any write; a new one has 0644, whatever the umask. More than MaxWrite is EFBIG. A
	// link is followed: its target is replaced and the link stays, also when the target does not exist yet. A directory is
	// EISDIR, a parent that is a file ENOTDIR, and anything else that is no regular file EINVAL. When it fails, the old content is untouched
	// and no other file is left behind.
	WriteFile(ctx context.Context, name string, content []byte, options WriteOptions) error
	// Stat follows links and tells of the path itself whether it is one. A link whose target is missing
	// is not an error: Info then describes the link. A loop of links is ELOOP.
	Stat(ctx context.Context, name string) (Info, error)
	// ReadDir lists a directory, sorted by name's bytes, without . and .., links not followed. A file is
	// ENOTDIR. An entry that vanishes while listing is left out.
	ReadDir(ctx context.Context, name string) ([]Info, error)
	// Exists says whether something is there, a link without a target included. Absence is never an error, a parent
	// that is a file, or a loop of links in it, is absence too; a directory that may not be searched is EACCES.
	Exists(ctx context.Context, name string) (bool, error)
	// Mkdir makes a directory. With Parents it makes what is missing on the way and a directory that is there already
	// is fine and left as it is; without, it is EEXIST, and a missing parent ENOENT. Something else in its place is EEXIST always.
	Mkdir(ctx context.Context, name string, options MkdirOptions) error
	// Remove removes a file, a link (never its target) or an empty directory. Recursive removes all below, without following links or
	// leaving the directory; without it a directory that is not empty is ENOTEMPTY. Force makes absence fine, as Exists understands it. The root, the
	// working directory Dir and any parent of it are refused with EBUSY.
	Remove(ctx context.Context, name string, options RemoveOptions) error
}

// Part is a range of a file. The zero value is all of it, as far as MaxRead. Negative values are EINVAL.
type Part struct {
	// Offset of the first byte; past the end reads nothing.
	Offset int64
	// Limit is the most bytes to return. 0: all; a rest of more than MaxRead is then EFBIG.
	Limit int64
}

// MaxRead is the most bytes that one ReadFile returns, and MaxWrite the most that one WriteFile takes.
const (
	MaxRead  = 256 << 20
	MaxWrite = 256 << 20
)

// WriteOptions of WriteFile. Mode: permission bits, 0 keeps or uses the default.
type WriteOptions struct{ Mode fs.FileMode }

// MkdirOptions of Mkdir. Mode: permission bits of the directory itself, 0 is 0755. What is made on the way has 0755.
type MkdirOptions struct {
	Parents bool
	Mode    fs.FileMode
}

// RemoveOptions of Remove.
type RemoveOptions struct{ Recursive, Force bool }

// Info describes one path.
type Info struct {
	// Name is the last element of the path, without slashes; of the root it is "/".
	Name string
	// Size in bytes; of a regular file only, otherwise 0.
	Size int64
	// Mode holds type and permissions of what Stat reached: fs.ModeDir, ModeNamedPipe, ModeSymlink for a link without a target, …
	Mode fs.FileMode
	// Modified has the precision of a second.
	Modified time.Time
	// IsSymlink says that the path itself is a link.
	IsSymlink bool
	// Links is the number of names of a file.
	Links    int
	UID, GID int
}

// IsDir reports whether a directory was reached.
func (i Info) IsDir() bool { return i.Mode.IsDir() }
