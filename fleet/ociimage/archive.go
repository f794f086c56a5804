package ociimage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

const blockSize = 512

// entry is one member of a layer, with everything that goes into its header.
type entry struct {
	path     string // absolute
	kind     byte   // tar's type flag
	mode     uint32
	uid, gid int
	target   string // of links
	source   Source // of files
	size     int64
	sum      [sha256.Size]byte
}

// entries lists the Spec's members, files hashed, sorted by path: a directory sorts before what is in it.
// On a scratch base missing parents are added as 0755 root; on another base they exist already or are made by the
// unpacker, and naming them here would override the base's own modes and links.
func (s Spec) entries(ctx context.Context) ([]entry, error) {
	byPath := map[string]entry{}
	for _, d := range s.Dirs {
		byPath[d.Path] = entry{path: d.Path, kind: tar.TypeDir, mode: orMode(d.Mode, 0o755), uid: d.UID, gid: d.GID}
	}
	for _, l := range s.Links {
		byPath[l.Path] = entry{path: l.Path, kind: tar.TypeSymlink, mode: 0o777, target: l.Target, uid: l.UID, gid: l.GID}
	}
	for _, f := range s.Files {
		e := entry{path: f.Path, kind: tar.TypeReg, mode: orMode(f.Mode, 0o644), uid: f.UID, gid: f.GID, source: f.Source}
		var err error
		if e.size, e.sum, err = hashSource(ctx, f.Source); err != nil {
			return nil, fmt.Errorf("file %s of the image: %w", f.Path, err)
		}
		byPath[f.Path] = e
	}
	if s.base() == Scratch {
		for _, e := range mapValues(byPath) {
			for dir := path.Dir(e.path); dir != "/"; dir = path.Dir(dir) {
				if _, ok := byPath[dir]; !ok {
					byPath[dir] = entry{path: dir, kind: tar.TypeDir, mode: 0o755}
				}
			}
		}
	}
	out := mapValues(byPath)
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

func orMode(mode, otherwise uint32) uint32 {
	if mode == 0 {
		return otherwise
	}
	return mode
}

func mapValues(m map[string]entry) []entry {
	out := make([]entry, 0, len(m))
	for _, e := range m {
		out = append(out, e)
	}
	return out
}

func hashSource(ctx context.Context, s Source) (size int64, sum [sha256.Size]byte, err error) {
	r, err := s.open()
	if err != nil {
		return 0, sum, err
	}
	defer r.Close()
	h := sha256.New()
	if size, err = io.Copy(h, contextReader{ctx, r}); err != nil {
		return 0, sum, fmt.Errorf("reading %s: %w", s.name(), err)
	}
	h.Sum(sum[:0])
	return size, sum, nil
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// header is the entry's tar header: ustar where its fields suffice, otherwise GNU's (long names, other
// bytes, sizes from 8 GiB). PAX records are never written. Times are the epoch, user and group names empty.
func (e entry) header() ([]byte, error) {
	h := &tar.Header{
		Typeflag: e.kind,
		Name:     strings.TrimPrefix(e.path, "/"),
		Linkname: e.target,
		Size:     e.size,
		Mode:     int64(e.mode),
		Uid:      e.uid,
		Gid:      e.gid,
		ModTime:  time.Unix(0, 0),
		Format:   tar.FormatUSTAR,
	}
	if e.kind == tar.TypeDir {
		h.Name += "/"
	}
	if !plain(h.Name) || !plain(h.Linkname) || e.size >= 1<<33 || e.uid >= 1<<21 || e.gid >= 1<<21 {
		h.Format = tar.FormatGNU
	}
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return nil, fmt.Errorf("path %s of the image: %w", e.path, err)
	}
	return b.Bytes(), nil
}

func plain(s string) bool {
	if len(s) > 100 {
		return false
	}
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// archive is the tar of some entries as a sequence of pieces, read from the start as often as needed.
type archive struct {
	pieces []piece
	size   int64
}

type piece struct {
	bytes []byte // a header or padding
	file  *entry // or a file's content
}

func newArchive(entries []entry) (*archive, error) {
	a := &archive{}
	for i := range entries {
		e := &entries[i]
		h, err := e.header()
		if err != nil {
			return nil, err
		}
		a.add(piece{bytes: h}, int64(len(h)))
		if e.size > 0 {
			a.add(piece{file: e}, e.size)
			if rest := e.size % blockSize; rest != 0 {
				a.add(piece{bytes: make([]byte, blockSize-rest)}, blockSize-rest)
			}
		}
	}
	a.add(piece{bytes: make([]byte, 2*blockSize)}, 2*blockSize)
	return a, nil
}

func (a *archive) add(p piece, size int64) {
	a.pieces = append(a.pieces, p)
	a.size += size
}

// open reads the archive from its start. It never holds more than a buffer of any file.
func (a *archive) open() io.ReadCloser { return &archiveReader{rest: a.pieces} }

type archiveReader struct {
	rest []piece
	cur  io.ReadCloser
}

func (r *archiveReader) Read(p []byte) (int, error) {
	for {
		if r.cur == nil {
			if len(r.rest) == 0 {
				return 0, io.EOF
			}
			next := r.rest[0]
			r.rest = r.rest[1:]
			if next.file == nil {
				r.cur = io.NopCloser(bytes.NewReader(next.bytes))
			} else {
				src, err := next.file.source.open()
				if err != nil {
					return 0, fmt.Errorf("file %s of the image: %w", next.file.path, err)
				}
				r.cur = &fileReader{e: next.file, src: src, sum: sha256.New()}
			}
		}
		n, err := r.cur.Read(p)
		if err == io.EOF { //nolint:errorlint // io.Reader's contract is the bare value; a wrapped one is a failure
			r.cur.Close()
			r.cur, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (r *archiveReader) Close() error {
	r.rest = nil
	if r.cur == nil {
		return nil
	}
	err := r.cur.Close()
	r.cur = nil
	return err
}

// fileReader gives exactly the bytes that were hashed at build, or an error that names the file.
type fileReader struct {
	e    *entry
	src  io.ReadCloser
	sum  hash.Hash
	read int64
}

func (f *fileReader) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	f.read += int64(n)
	f.sum.Write(p[:n])
	switch {
	case f.read > f.e.size:
		return 0, f.changed()
	case err == io.EOF: //nolint:errorlint // as above
		if f.read != f.e.size || [sha256.Size]byte(f.sum.Sum(nil)) != f.e.sum {
			return n, f.changed()
		}
	case err != nil:
		return n, fmt.Errorf("file %s of the image: reading %s: %w", f.e.path, f.e.source.name(), err)
	}
	return n, err
}

func (f *fileReader) changed() error {
	return fmt.Errorf("file %s of the image: %s changed after the image was built; build it again", f.e.path, f.e.source.name())
}

func (f *fileReader) Close() error { return f.src.Close() }
