package remote

import (
	"archive/tar"
	"bytes"
	"path"
	"strings"
	"syscall"
	"time"
)

// inside is a name of a tar stream as a path below the tree's directory, "." for itself; EINVAL when it leads outside.
func inside(name string) (string, error) {
	if name == "" || path.IsAbs(name) || strings.IndexByte(name, 0) >= 0 {
		return "", syscall.EINVAL
	}
	if climbs(name) {
		return "", syscall.EINVAL
	}
	clean := path.Clean(name)
	if len(clean) > mostName {
		return "", syscall.ENAMETOOLONG
	}
	return clean, nil
}

// treeEntry is one entry of a stream that is to be made on the machine.
type treeEntry struct {
	header  tar.Header // Name and Linkname are clean
	content []byte     // of a regular file that is not large
	// linked: it leads through a link of the same stream, so the machine is to look at it when the link is there.
	linked bool
}

// vetted are the names that the machine looks at before it makes the entry, each with its kind in front.
func (e *treeEntry) vetted() []string {
	kind := "o"
	if e.header.Typeflag == tar.TypeDir {
		kind = "d"
	}
	names := []string{kind + "./" + e.header.Name}
	if e.header.Typeflag == tar.TypeLink {
		names = append(names, "p./"+e.header.Linkname)
	}
	return names
}

// weigher judges entries by what the stream itself says, in its order.
type weigher struct {
	links map[string]bool // made by this stream
}

// weigh returns the entry, or why it is refused: by its name or its type. A nil
// entry without an error is none of its own.
func (w *weigher) weigh(h *tar.Header) (*treeEntry, error) {
	e := &treeEntry{header: tar.Header{
		Typeflag: h.Typeflag, Mode: h.Mode & 0o777, ModTime: h.ModTime.Truncate(time.Second), Format: tar.FormatGNU,
	}}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil, nil
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives still say so
		e.header.Typeflag, e.header.Size = tar.TypeReg, h.Size
	case tar.TypeDir, tar.TypeFifo:
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > mostName {
			return nil, syscall.EINVAL
		}
		e.header.Linkname = h.Linkname
	case tar.TypeLink:
		to, err := inside(h.Linkname)
		if err != nil {
			return nil, syscall.EINVAL
		}
		e.header.Linkname, e.linked = to, w.through(to)
	default:
		return nil, syscall.EINVAL
	}
	name, err := inside(h.Name)
	switch {
	case err != nil:
		return nil, err
	case name == "." && e.header.Typeflag != tar.TypeDir:
		return nil, syscall.EINVAL
	}
	e.header.Name, e.linked = name, e.linked || w.through(name) || w.links[name]
	if e.header.Typeflag == tar.TypeSymlink {
		w.links[name] = true
	} else if e.header.Typeflag != tar.TypeDir {
		delete(w.links, name)
	}
	return e, nil
}

// through says whether a name leads through a link of the stream.
func (w *weigher) through(name string) bool {
	for i := range len(name) {
		if name[i] == '/' && w.links[name[:i]] {
			return true
		}
	}
	return false
}

// archiveOf writes entries in the one form that every tar reads: GNU's, whose long names busybox knows too. Directories are not in it: they are made by
// then.
func archiveOf(entries []*treeEntry) ([]byte, error) {
	var b bytes.Buffer
	room := 2 << 10
	for _, e := range entries {
		room += 1<<10 + len(e.content)
	}
	b.Grow(room)
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header
		h.Name = "./" + h.Name
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeLink:
			h.Linkname = "./" + h.Linkname
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
