package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A machine without package manager gets everything that is missing at once, with one command, and nothing is skipped.
func TestDepsNamesEverythingThatIsMissing(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"bash", "env", "id", "uname", "sed", "sort", "head", "dirname", "git"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"go", "make", "terraform"}
	if runtime.GOOS == "linux" {
		want = append(want, "bwrap")
	}
	for _, mode := range [][]string{{"need", "demo"}, {"need", "test"}, {"install"}} {
		cmd := exec.Command("bash", append([]string{"../.ci/deps"}, mode...)...)
		cmd.Env = []string{"PATH=" + bin, "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%v passes without %v:\n%s", mode, want, out)
		}
		listed, command, found := strings.Cut(string(out), "get all of it with:\n")
		if !found || strings.Count(strings.TrimSpace(command), "\n") != 0 {
			t.Fatalf("%v names no one command:\n%s", mode, out)
		}
		for _, part := range want {
			if !strings.Contains(listed, "\n  "+part+" ") {
				t.Errorf("%v does not list %s:\n%s", mode, part, out)
			}
		}
		if strings.Contains(listed, "\n  git ") || !strings.Contains(command, "bubblewrap") == (runtime.GOOS == "linux") {
			t.Errorf("%v: what is there is listed, or what is missing is not in the command:\n%s", mode, out)
		}
	}
	cmd := exec.Command("bash", "../.ci/deps", "need", "test")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on this machine, which runs the tests: %v\n%s", err, out)
	}
}
