package rootfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

// layer is a layer held in memory.
type layer []byte

func (l layer) Uncompressed() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil }

func stream(t testing.TB, layers ...[]runnertest.Entry) []byte {
	t.Helper()
	var all []rootfs.Layer
	for _, entries := range layers {
		b, err := runnertest.Tar(entries...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, layer(b))
	}
	var out bytes.Buffer
	if err := rootfs.WriteLayers(&out, all); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack applies layers and returns the tree as path → description.
func unpack(t *testing.T, layers ...[]runnertest.Entry) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if _, err := rootfs.Unpack(dir, bytes.NewReader(stream(t, layers...)), rootfs.Options{}); err != nil {
		t.Fatal(err)
	}
	return tree(t, dir)
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			out[name] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			out[name] = "-> " + target
			return err
		default:
			b, err := os.ReadFile(p)
			out[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type entries = []runnertest.Entry

func file(name, content string) runnertest.Entry { return runnertest.File(name, 0o644, content) }

func hardLink(name, target string) runnertest.Entry {
	return runnertest.Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}}
}

func TestLayersApplyInOrderWithTheirWhiteouts(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers []entries
		want   map[string]string
	}{
		{"a whiteout hides a lower file", []entries{{file("a", "1"), file("b", "1")}, {file(".wh.a", "")}}, map[string]string{"b": "1"}},
		{"a whiteout hides a lower tree", []entries{{file("d/e/f", "1")}, {file("d/.wh.e", "")}}, map[string]string{"d": "dir"}},
		{
			"a whiteout leaves what its own layer makes",
			[]entries{{file("d/old", "1")}, {file("d/new", "2"), file(".wh.d", "")}},
			map[string]string{"d": "dir", "d/new": "2"},
		},
		{
			"an opaque directory hides what lies below, in either order",
			[]entries{{file("d/old", "1"), file("d/s/x", "1")}, {file("d/before", "2"), file("d/.wh..wh..opq", ""), file("d/after", "2")}},
			map[string]string{"d": "dir", "d/before": "2", "d/after": "2"},
		},
		{"a file takes a directory's place", []entries{{file("x/y", "1")}, {file("x", "2")}}, map[string]string{"x": "2"}},
		{"a directory takes a file's place", []entries{{file("x", "1")}, {file("x/y", "2")}}, map[string]string{"x": "dir", "x/y": "2"}},
		{
			"a directory entry keeps what lies below",
			[]entries{{file("x/y", "1")}, {runnertest.Dir("x", 0o700)}},
			map[string]string{"x": "dir", "x/y": "1"},
		},
		{
			"an absolute link means the image's root",
			[]entries{{runnertest.Dir("run", 0o755), runnertest.Link("var/run", "/run")}, {file("var/run/pid", "2")}},
			map[string]string{"run": "dir", "run/pid": "2", "var": "dir", "var/run": "-> /run"},
		},
		{"a hard link shares content", []entries{{file("a", "1"), hardLink("b", "a")}}, map[string]string{"a": "1", "b": "1"}},
		{"a hard link to a lower layer", []entries{{file("a", "1")}, {hardLink("b", "/a")}}, map[string]string{"a": "1", "b": "1"}},
		{
			"a later file does not write through a hard link",
			[]entries{{file("a", "1"), hardLink("b", "a")}, {file("b", "2")}},
			map[string]string{"a": "1", "b": "2"},
		},
		{"a later file does not write through a link", []entries{{file("a", "1"), runnertest.Link("b", "a")}, {file("b", "2")}}, map[string]string{"a": "1", "b": "2"}},
		{"dots and slashes in names", []entries{{file("./a/../b", "0")}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == nil {
				if _, err := rootfs.Unpack(t.TempDir(), bytes.NewReader(stream(t, c.layers...)), rootfs.Options{}); err == nil {
					t.Error("it was accepted")
				}
				return
			}
			if diff := cmp.Diff(c.want, unpack(t, c.layers...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoLayerReachesOutside(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	for name, layers := range map[string][]entries{
		"climbing name":                {{file("../secret", "x")}},
		"climbing link":                {{runnertest.Link("up", strings.Repeat("../", 30)+outside), file("up/secret", "x")}},
		"absolute link":                {{runnertest.Link("abs", outside), file("abs/secret", "x")}},
		"link made in a lower layer":   {{runnertest.Link("abs", outside)}, {file("abs/secret", "x")}},
		"chain of links":               {{runnertest.Link("a", "b"), runnertest.Link("b", outside), file("a/secret", "x")}},
		"hard link to an outside path": {{hardLink("stolen", secret)}},
		"hard link through a link":     {{runnertest.Link("abs", outside), hardLink("stolen", "abs/secret")}},
		"whiteout through a link":      {{runnertest.Link("abs", outside)}, {file("abs/.wh.secret", "")}},
		"opaque through a link":        {{runnertest.Link("abs", outside)}, {file("abs/.wh..wh..opq", "")}},
		"mode of a link's target":      {{runnertest.Link("abs", secret)}, {runnertest.File("abs", 0o777, "x")}},
		"whiteout of dot dot":          {{file("d/.wh...", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			// An error is as good as a harmless result.
			_, _ = rootfs.Unpack(dir, bytes.NewReader(stream(t, layers...)), rootfs.Options{})
			info, err := os.Stat(secret)
			if err != nil || info.Size() != 1 || info.Mode().Perm() != 0o600 {
				t.Errorf("the file outside is %v, %v", info, err)
			}
			if got := tree(t, outside); len(got) != 1 || got["secret"] != "s" {
				t.Errorf("outside there is %v", got)
			}
			if got := tree(t, dir); got["stolen"] == "s" {
				t.Error("a file from outside was linked in")
			}
		})
	}
}

func TestModesAndOwnersAreTheImages(t *testing.T) {
	dir := t.TempDir()
	in := entries{
		runnertest.Owned(runnertest.Dir("closed", 0o555), 10000, 10000),
		file("closed/inside", "1"),
		runnertest.Owned(runnertest.File("suid", 0o4755, "1"), 10000, 10001),
		runnertest.Dir("sticky", 0o1777),
	}
	owners := os.Geteuid() == 0
	report, err := rootfs.Unpack(dir, bytes.NewReader(stream(t, in)), rootfs.Options{Owners: owners})
	if err != nil {
		t.Fatal(err)
	}
	closed := fs.ModeDir | 0o555
	if !owners {
		closed |= 0o700 // or nobody could remove it again
	}
	for name, want := range map[string]fs.FileMode{
		"closed": closed, "suid": fs.ModeSetuid | 0o755, "sticky": fs.ModeDir | fs.ModeSticky | 0o777,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s has %v, not %v (%v)", name, info.Mode(), want, err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if owner := fmt.Sprintf("%d:%d", st.Uid, st.Gid); ok && owners && name == "suid" && owner != "10000:10001" {
			t.Errorf("%s belongs to %s", name, owner)
		}
	}
	want := map[string]string{"closed": "10000:10000", "suid": "10000:10001"}
	if owners {
		want = nil
	}
	if diff := cmp.Diff(want, report.Owners); diff != "" {
		t.Error(diff)
	}
}

func TestImageOverItsLimitsIsRefused(t *testing.T) {
	in := stream(t, entries{file("a", "12345"), file("b", "12345")})
	for _, limits := range []rootfs.Limits{{Bytes: 9, Entries: 10}, {Bytes: 100, Entries: 1}} {
		if _, err := rootfs.Unpack(t.TempDir(), bytes.NewReader(in), rootfs.Options{Limits: limits}); !errors.Is(err, rootfs.ErrTooBig) {
			t.Errorf("limits %+v gave %v", limits, err)
		}
	}
}

func TestBrokenOffStreamIsNoImage(t *testing.T) {
	in := stream(t, entries{file("a", "1")}, entries{file("b", "2")})
	for n := range in {
		if _, err := rootfs.Unpack(t.TempDir(), bytes.NewReader(in[:n]), rootfs.Options{}); err == nil {
			t.Fatalf("the first %d of %d bytes were taken for the whole image", n, len(in))
		}
	}
}

func TestCompressedLayersUnpackTheSame(t *testing.T) {
	plain, err := runnertest.Tar(file("a/b", "1"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil })
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := rootfs.WriteLayers(&out, []rootfs.Layer{l}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := rootfs.Unpack(dir, &out, rootfs.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "dir", "a/b": "1"}, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestCopyIsTheSameTree(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	in := entries{
		file("a/b", "1"), hardLink("a/c", "a/b"), runnertest.Link("l", "/a/b"), runnertest.File("x", 0o4711, "2"), runnertest.Dir("ro", 0o555),
	}
	if _, err := rootfs.Unpack(src, bytes.NewReader(stream(t, in)), rootfs.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := rootfs.Copy(src, dst, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, src), tree(t, dst)); diff != "" {
		t.Error(diff)
	}
	b, berr := os.Stat(filepath.Join(dst, "a/b"))
	c, cerr := os.Stat(filepath.Join(dst, "a/c"))
	if err := errors.Join(berr, cerr); err != nil || !os.SameFile(b, c) {
		t.Errorf("the hard link was taken apart (%v)", err)
	}
	if x, err := os.Stat(filepath.Join(dst, "x")); err != nil || x.Mode() != fs.ModeSetuid|0o711 {
		t.Errorf("mode %v, %v", x.Mode(), err)
	}
}

func TestEmptyRemovesAllButTheDirectory(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{deep, filepath.Dir(deep)} {
		if err := os.WriteFile(filepath.Join(d, "f"), nil, 0o400); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := rootfs.Empty(dir); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}
