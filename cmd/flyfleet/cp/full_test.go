package cp_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/machinetest"
)

// A machine whose volume is full takes no copy, says why, and keeps what it has; what it has can be fetched, and once there is room
// the copy gets through.
func TestAFullVolumeIsToldAndKeepsWhatItHas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("not run on a machine: only root may mount a small volume; package transfer tries a full disk as anybody")
		return
	}
	machinetest.StartSmall(t)
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	write(t, filepath.Join(src, "old"), []byte("old"), 0o644)
	copied(t, src, "tenant:tree")
	large := random(t, 8<<20)
	write(t, filepath.Join(dir, "large"), large, 0o644)
	write(t, filepath.Join(src, "old"), random(t, 200<<10), 0o644)
	onMachine(t, "dd if=/dev/zero of=filler bs=65536 2>/dev/null; true")
	for _, args := range [][]string{{"cp", filepath.Join(dir, "large"), "tenant:large"}, {"cp", src, "tenant:tree"}} {
		code, stdout, stderr := machinetest.Flyfleet(t.Context(), args...)
		if code != 1 || stdout != "" || !strings.Contains(strings.ToLower(stderr), "no space left on device") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if got := good(t, "cp", "tenant:tree/old", "-"); got != "old" {
		t.Errorf("what was there is now %d bytes", len(got))
	}
	onMachine(t, "rm filler")
	if got := onMachine(t, "ls"); got != "tree\n" {
		t.Errorf("after two copies that failed there is %q", got)
	}
	copied(t, filepath.Join(dir, "large"), "tenant:large")
	copied(t, src, "tenant:tree")
	if got := good(t, "cp", "tenant:large", "-"); !bytes.Equal([]byte(got), large) {
		t.Error("the large file differs")
	}
	if got := onMachine(t, "find . | sort"); got != ".\n./large\n./tree\n./tree/old\n" {
		t.Errorf("in the end there is %q", got)
	}
}
