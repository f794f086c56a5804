package transfer_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest/confine"
)

func TestMain(m *testing.M) { confine.Main(m) }

// fill writes a file until the disk is full and returns its name.
func fill(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for range 1 << 10 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return f.Name()
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the disk is not small")
	return ""
}

// openFull is a pair whose copies end on a small disk: the machine's on the way up, this computer's on the way down.
func openFull(t *testing.T, way string) (p pair, source, full string) {
	t.Helper()
	small, reason := confine.Small()
	if reason != "" {
		t.Fatal(reason)
	}
	p = open(t)
	full, err := os.MkdirTemp(small, way)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(full); err != nil {
			t.Error(err)
		}
	})
	if way == "down" {
		p.here = full
		return p, p.there, full
	}
	p.there, p.box = full, p.box.In(full)
	return p, p.here, full
}

// A full disk at either end is told, leaves what was there, and stands in the way of nothing once there is room.
func TestAFullDiskIsToldAndTheCopyGoesOnWhenThereIsRoom(t *testing.T) {
	for way, ends := range map[string][2]string{"up": {"", "app:"}, "down": {"app:", ""}} {
		t.Run(way, func(t *testing.T) {
			p, source, full := openFull(t, way)
			write(t, full+"/large", []byte("old"), 0o644)
			write(t, full+"/tree/a", []byte("old"), 0o644)
			write(t, source+"/large", random(t, 6<<20), 0o644)
			write(t, source+"/tree/a", random(t, 100<<10), 0o644)
			write(t, source+"/tree/b", random(t, 100<<10), 0o644)
			filler := fill(t, full)
			for _, name := range []string{"large", "tree"} {
				r, err := p.copy(t.Context(), ends[0]+name, ends[1]+name)
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), "no space left on device") {
					t.Errorf("%s: %v (%+v)", name, err, r)
				}
			}
			for _, name := range []string{"large", "tree/a"} {
				if got, err := os.ReadFile(filepath.Join(full, name)); string(got) != "old" {
					t.Errorf("%s is not what it was: %d bytes, %v", name, len(got), err)
				}
			}
			if _, err := os.Stat(full + "/tree/b"); err == nil {
				t.Error("a file that did not fit has its name")
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"large", "tree"} {
				p.good(t, ends[0]+name, ends[1]+name)
			}
			left, right := snapshot(t, source), snapshot(t, full)
			delete(left, ".")
			delete(right, ".")
			if !maps.Equal(left, right) {
				t.Error("what is there in the end is not what was to be copied")
			}
		})
	}
}
