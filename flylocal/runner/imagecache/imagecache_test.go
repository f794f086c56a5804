package imagecache_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/imagecache"
)

const digest = "sha256:0123456789abcdef"

func open(t *testing.T, dir string) *imagecache.Cache {
	t.Helper()
	c, err := imagecache.Open(dir, os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestImageIsUnpackedOnce(t *testing.T) {
	dir := t.TempDir()
	// Two platforms share the directory.
	caches := []*imagecache.Cache{open(t, dir), open(t, dir)}
	var unpacked [2]atomic.Int32
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			at, err := caches[n%2].Get(t.Context(), digest, func(d string) error {
				unpacked[n%2].Add(1)
				return os.WriteFile(filepath.Join(d, "f"), []byte("whole"), 0o600)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(filepath.Join(at, "f")); err != nil || string(b) != "whole" {
				t.Errorf("the image holds %q, %v", b, err)
			}
		})
	}
	wg.Wait()
	for n := range unpacked {
		if got := unpacked[n].Load(); got > 1 {
			t.Errorf("cache %d unpacked %d times", n, got)
		}
	}
	if got := entries(t, dir); len(got) != 1 {
		t.Errorf("the cache holds %q", got)
	}
}

func TestFailedUnpackLeavesNothingAndIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	broken := errors.New("broken")
	if _, err := c.Get(t.Context(), digest, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if got := entries(t, dir); len(got) != 0 {
		t.Errorf("the cache holds %q", got)
	}
	if _, err := c.Get(t.Context(), digest, func(string) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestOpenRemovesWhatAKilledProcessLeft(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "unpacking-1", "deep")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir)
	if got := entries(t, dir); len(got) != 0 {
		t.Errorf("the cache holds %q", got)
	}
	// What another platform is unpacking right now stays.
	_, err := c.Get(t.Context(), digest, func(d string) error {
		open(t, dir)
		return os.WriteFile(filepath.Join(d, "f"), nil, 0o600)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDigestCannotLeadElsewhere(t *testing.T) {
	c := open(t, t.TempDir())
	for _, d := range []string{"", "sha256", "sha256:", "sha256:../x", "../x:00", "sha256:a/b", "sha256:AB"} {
		if at, err := c.Get(t.Context(), d, func(string) error { return nil }); err == nil {
			t.Errorf("%q became %s", d, at)
		}
	}
}
