package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"time"
)

const (
	// smallFile is the largest file that is copied together with others.
	smallFile = 1 << 20
	// batchBytes and batchFiles bound what is copied together.
	batchBytes = 4 << 20
	batchFiles = 500
	// pieceBytes is how much of a large file goes at once, and so the most that a cut may cost. It comes with one answer of a machine.
	pieceBytes = 4 << 20
	// align is what offsets are multiples of, for a dd that counts in blocks.
	align = 64 << 10
	// partPrefix begins the names of what is not finished.
	partPrefix = ".flyfleet-part-"
)

// errPart says that a name is of an unfinished copy: it is left out of trees.
var errPart = errors.New("a part of another copy")

// side is one end of a copy: a directory and names below it. Lists of answers are in the order of the names asked for.
type side interface {
	// list finds the tree below the directory, itself first. What could not be looked at is told to failed.
	list(ctx context.Context, failed func(name string, err error)) ([]entry, error)
	// look tells what each name is; links are not followed, except in the directories before them. What is not there is absent.
	look(ctx context.Context, names []string) ([]entry, error)
	readMany(ctx context.Context, entries []entry) ([]content, error)
	// read returns a piece of a file, less than limit only at its end.
	read(ctx context.Context, name string, offset, limit int64) ([]byte, error)
	// hash is the SHA-256 of the first bytes of each file, as many as its entry's size; "" where that cannot be told.
	hash(ctx context.Context, entries []entry) ([]string, error)

	// mkdirs makes directories and sees to it that they can be written to, parents first.
	mkdirs(ctx context.Context, names []string) error
	// writeMany makes or replaces files, each at once. stage is a name that may be used meanwhile.
	writeMany(ctx context.Context, stage string, files []content, failed func(name string, err error)) error
	// write puts a piece into a part file, which it makes at offset 0 when first is true, dropping what was there.
	write(ctx context.Context, part string, offset int64, data []byte, first bool) error
	// finish gives a part file its mode, time and name, if its hash is sum; otherwise it fails with errDiffers and removes it.
	finish(ctx context.Context, part string, e entry, sum string) error
	// link makes or replaces links.
	link(ctx context.Context, entries []entry, failed func(name string, err error)) error
	// touch sets modes and times of what is there.
	touch(ctx context.Context, entries []entry, failed func(name string, err error)) error
	// sweep removes from the directory what begins with prefix.
	sweep(ctx context.Context, prefix string) error
}

// content is a small file.
type content struct {
	entry

	data []byte
	err  error
}

// errDiffers says that what arrived is not what was sent.
var errDiffers = errors.New("it changed while it was copied; run the same again")

func sumOf(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// second is a time as both ends can keep it.
func second(t time.Time) time.Time { return t.Truncate(time.Second) }

// defaultMode is of files whose source has none.
const defaultMode fs.FileMode = 0o644
