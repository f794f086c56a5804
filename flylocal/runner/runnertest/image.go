// Package runnertest holds what tests of runners share: small images, a program to run in them, and the conformance
// suite that each runner with processes passes.
package runnertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entry is one entry of a layer; Mode and Type have the defaults of a plain file.
type Entry struct {
	tar.Header
	Content string
}

// Dir is a directory.
func Dir(name string, mode int64) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}}
}

// File is a regular file.
func File(name string, mode int64, content string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode}, Content: content}
}

// Link is a symbolic link.
func Link(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}}
}

// Owned gives an entry to a user and group.
func Owned(e Entry, uid, gid int) Entry {
	e.Uid, e.Gid = uid, gid
	return e
}

// Tar writes a layer.
func Tar(entries ...Entry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		e.Size = int64(len(e.Content))
		if err := w.WriteHeader(&e.Header); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		if _, err := w.Write([]byte(e.Content)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// Image makes an image of plain tar layers.
func Image(t testing.TB, layers ...[]Entry) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, entries := range layers {
		content, err := Tar(entries...)
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, static.NewLayer(content, types.OCIUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// Digest is the image's manifest digest.
func Digest(t testing.TB, img v1.Image) string {
	t.Helper()
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// AppPath is where AppImage has the test's own binary, which must call App in its TestMain.
const AppPath = "/opt/app/bin/app"

// AppLayer is the base of a tenant's image: the test's binary, users, the usual directories.
func AppLayer(t testing.TB) []Entry {
	t.Helper()
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	entries := []Entry{
		Dir("etc", 0o755),
		File("etc/passwd", 0o644, "root:x:0:0::/root:/bin/sh\ntenant:x:10000:10000::/workspace:/bin/sh\n"),
		File("etc/group", 0o644, "root:x:0:\ntenant:x:10000:\nextra:x:10001:tenant\n"),
		Dir("opt", 0o755), Dir("opt/app", 0o755), Dir(path.Dir(AppPath)[1:], 0o755),
		File(AppPath[1:], 0o755, string(own)),
		Dir("data", 0o755), Dir("tmp", 0o1777),
		Link("workspace", "/data/workspace"),
	}
	return entries
}

// Busybox is one static program, this computer's own, and a link in /bin for each of its names.
func Busybox(t testing.TB) []Entry {
	t.Helper()
	own, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("busybox is missing: apt-get install busybox-static")
	}
	program, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.CommandContext(t.Context(), own, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	const path = "/bin/busybox"
	entries := []Entry{Dir("bin", 0o755), File(path[1:], 0o755, string(program))}
	for name := range strings.FieldsSeq(string(list)) {
		if name != "busybox" {
			entries = append(entries, Link("bin/"+name, path))
		}
	}
	return entries
}
