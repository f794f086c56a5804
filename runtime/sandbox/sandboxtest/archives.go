package sandboxtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
)

// entry is one entry of an archive that a case makes.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func directory(name string, mode int64) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}}
}

func link(name, target string) entry {
	return entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

func other(kind byte, name, target string) entry {
	return entry{Header: tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o644, Devmajor: 1, Devminor: 3}}
}

func archive(t *trial, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size, e.Format = int64(len(e.content)), tar.FormatGNU
		t.ok(w.WriteHeader(&e.Header))
		_, err := io.WriteString(w, e.content)
		t.ok(err)
	}
	t.ok(w.Close())
	return b.Bytes()
}

// entriesOf describes an archive's entries, by cleaned name.
func entriesOf(t *trial, b []byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	contents := map[string]string{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			t.Fatalf("the archive of %d bytes is not valid after %d entries: %v", len(b), len(all), err)
		}
		content, err := io.ReadAll(r)
		t.ok(err)
		name := path.Clean(h.Name)
		if _, twice := all[name]; twice {
			t.Fatalf("the archive has %q twice", name)
		}
		told := fmt.Sprintf("%x", sha256.Sum256(content))
		kind := h.Typeflag
		if kind == tar.TypeLink {
			// Another name of a file that came before.
			kind, told = tar.TypeReg, contents[path.Clean(h.Linkname)]
		}
		contents[name] = told
		mode := strconv.FormatInt(h.Mode&0o7777, 8)
		if kind == tar.TypeSymlink {
			mode, told = "", h.Linkname
		}
		all[name] = fmt.Sprintf("%c %s %s", kind, mode, told)
	}
}
