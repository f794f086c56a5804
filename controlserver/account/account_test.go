//go:build linux

package account

import (
	"os"
	"path/filepath"
	"testing"
)

func TestATenantThatCannotEnterTheWorkspaceIsNotUsed(t *testing.T) {
	top, err := os.MkdirTemp("", "account") // unlike t.TempDir, whose own parent decides
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	workspace := filepath.Join(top, "data", "workspace")
	if err := os.MkdirAll(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(workspace, link); err != nil {
		t.Fatal(err)
	}
	stranger := uint32(os.Geteuid() + 4242)
	for _, mode := range []os.FileMode{0o755, 0o711, 0o700, 0o750} {
		if err := os.Chmod(filepath.Dir(workspace), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(top, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{workspace, link, filepath.Join(workspace, "not", "there")} {
			if got, want := enterable(dir, stranger, stranger), mode&1 == 1; got != want {
				t.Errorf("%s below mode %o: %v, want %v", dir, mode, got, want)
			}
			if !enterable(dir, uint32(os.Geteuid()), uint32(os.Getegid())) {
				t.Errorf("%s below mode %o: its owner may not enter", dir, mode)
			}
		}
	}
}
