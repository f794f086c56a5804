package confine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestTestsRunWithoutCapabilities(t *testing.T) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, set, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Cap") && strings.Trim(set, "\t\n0") != "" {
			t.Errorf("%s is %s", name, strings.TrimSpace(set))
		}
	}
	file := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(file, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); !os.IsPermission(err) {
		t.Errorf("a file without permissions was read: error %v", err)
	}
}

func TestSmallFileSystemIsSmallAndOurs(t *testing.T) {
	dir, reason := Small()
	if reason != "" {
		t.Fatal(reason)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if size := int64(fs.Blocks) * fs.Bsize; size > 16<<20 {
		t.Errorf("it holds %d bytes", size)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Error(err)
	}
}
