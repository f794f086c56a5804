package cmd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cloneTree copies what git would hand to another person: tracked files and new ones it does not ignore.
func cloneTree(t *testing.T, to string) {
	t.Helper()
	root := repositoryRoot(t)
	cmd := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		copyFile(t, filepath.Join(root, name), filepath.Join(to, name))
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Lstat(from)
	if os.IsNotExist(err) {
		return // deleted in the working tree, still in the index
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()|0o600); err != nil {
		t.Fatal(err)
	}
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatalf("git rev-parse: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// run calls a program in dir and fails the test when it fails.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s in %s: %v\n%s", name, strings.Join(args, " "), dir, err, out.String())
	}
	return out.String()
}

func TestTwoClonesGiveByteEqualBinaries(t *testing.T) {
	var sums [2]map[string]string
	for i, name := range []string{"one", "another-path-of-other-length"} {
		dir := filepath.Join(t.TempDir(), name)
		cloneTree(t, dir)
		run(t, dir, "make", "build")
		sums[i] = digests(t, filepath.Join(dir, "bin"))
	}
	if len(sums[0]) < 3 {
		t.Fatalf("make build left %d binaries", len(sums[0]))
	}
	for name, sum := range sums[0] {
		if sums[1][name] != sum {
			t.Errorf("bin/%s differs between two clones: %s and %s", name, sum, sums[1][name])
		}
	}
}

func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		sums[entry.Name()] = hex.EncodeToString(sum[:])
	}
	return sums
}
