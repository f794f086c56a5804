package rootfs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

// TestAnyEntriesStayInside makes images at random from names and links that a hostile image would use.
func TestAnyEntriesStayInside(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		dir := filepath.Join(base, "root")
		for _, d := range []string{dir, filepath.Join(base, "out")} {
			if err := os.Mkdir(d, 0o755); err != nil {
				rt.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(base, "out", "f"), []byte("precious"), 0o600); err != nil {
			rt.Fatal(err)
		}
		part := rapid.SampledFrom([]string{"a", "b", "..", ".", "f", "out", ".wh.a", ".wh.f", ".wh..wh..opq", ".wh...", base + "/out", "/" + base})
		name := rapid.Custom(func(rt *rapid.T) string {
			return filepath.ToSlash(joined(rapid.SliceOfN(part, 1, 4).Draw(rt, "parts")))
		})
		entry := rapid.Custom(func(rt *rapid.T) runnertest.Entry {
			n := name.Draw(rt, "name")
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				return runnertest.Dir(n, 0o700)
			case 1:
				return runnertest.Link(n, name.Draw(rt, "target"))
			case 2:
				return hardLink(n, name.Draw(rt, "target"))
			}
			return file(n, "x")
		})
		layers := rapid.SliceOfN(rapid.SliceOfN(entry, 1, 8), 1, 3).Draw(rt, "layers")
		for _, l := range layers {
			for i := range l {
				if l[i].Name == "" || l[i].Name == "/" {
					l[i].Name = "a"
				}
			}
		}
		_, _ = rootfs.Unpack(dir, bytes.NewReader(stream(t, layers...)), rootfs.Options{}) // an error is fine
		if err := os.RemoveAll(dir); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"out": "dir", "out/f": "precious"}, tree(t, base)); diff != "" {
			rt.Fatal(diff)
		}
		if err := os.RemoveAll(base); err != nil {
			rt.Fatal(err)
		}
	})
}

func joined(parts []string) (out string) {
	for i, p := range parts {
		if i > 0 {
			out += "/"
		}
		out += p
	}
	return out
}
