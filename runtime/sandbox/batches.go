package sandbox

import (
	"context"
	"io"
	"io/fs"
)

// Batches does many small things for the price of one: each call is one operation, not many in a row, and
// calls are never merged behind the caller's back.
type Batches interface {
	// StatMany is Stat for each name. The answers are in the order of the names; each has its own error. The
	// error of the call itself says that there is no answer at all.
	StatMany(ctx context.Context, names []string) ([]Stated, error)
	// ReadFiles is ReadFile for each name, as far as limit bytes of each (0: all of each; what does not fit into MaxRead for the whole
	// call is EFBIG). The answers come in the order of the names, each with its own error.
	ReadFiles(ctx context.Context, names []string, limit int64) ([]Read, error)
	// WriteFiles is WriteFile for each file, each atomically, not all at once: when one fails the others are written. The
	// answers are one error, or nil, per file, in order.
	WriteFiles(ctx context.Context, files []File) ([]error, error)
	// ReadTree writes a directory's tree, or one file, as a tar stream with names relative to it ("." is the directory itself; one file
	// has its own name). The name itself is followed, links below it are not:
	// directories, files, links, fifos, with mode, time and numeric owner; sockets are left out. What vanishes or changes meanwhile is
	// told by a *TreeError at the end, after all the rest was written; whatever was written is a valid archive.
	ReadTree(ctx context.Context, name string, tar io.Writer, options TreeOptions) error
	// WriteTree makes the entries of a tar stream below a directory, which it makes if missing. Existing files are replaced, never
	// written into; existing directories are kept with what they hold. An entry that would land outside, by name or through a link, is refused before
	// anything of it is written, with EINVAL in a *TreeError. Devices are refused. Owners are not applied, modes are, setuid bits are dropped.
	WriteTree(ctx context.Context, name string, tar io.Reader, options TreeOptions) error
}

// Stated is one answer of StatMany.
type Stated struct {
	Info Info
	Err  error
}

// Read is one answer of ReadFiles.
type Read struct {
	Content []byte
	Err     error
}

// File is one file of WriteFiles.
type File struct {
	Name    string
	Content []byte
	Mode    fs.FileMode
}

// TreeOptions of ReadTree and WriteTree.
type TreeOptions struct {
	// Progress is called now and then, at most some times a second, and once at the end, with the bytes of the
	// stream so far. Nil: not at all.
	Progress func(bytes int64)
}
