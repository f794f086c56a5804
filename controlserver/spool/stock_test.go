//go:build linux

package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

func never() bool { return false }

func inStock(t *testing.T, dir string) int {
	t.Helper()
	made, err := os.ReadDir(filepath.Join(dir, "stock"))
	if err != nil {
		t.Fatal(err)
	}
	return len(made)
}

func restock(t *testing.T, s *spool.Spool, wanted int) {
	t.Helper()
	if err := s.Restock(wanted, never); err != nil {
		t.Fatal(err)
	}
}

// sameFile says whether a path is still the file that info was of.
func sameFile(t *testing.T, info os.FileInfo, path string) bool {
	t.Helper()
	now, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(info, now)
}

func TestStartTakesADirectoryThatWasMadeBefore(t *testing.T) {
	s, dir := open(t)
	restock(t, s, 1)
	made, err := filepath.Glob(filepath.Join(dir, "stock", "*", "state"))
	if err != nil || len(made) != 1 {
		t.Fatalf("got %v, %v", made, err)
	}
	state, err := os.Stat(made[0])
	if err != nil {
		t.Fatal(err)
	}
	first := create(t, s)
	if !sameFile(t, state, s.File(first, "state")) || inStock(t, dir) != 0 {
		t.Fatal("another directory was made")
	}
	if out, err := os.Stat(s.File(first, "out")); err != nil || out.Size() != 0 || out.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v", out, err)
	}
	if info, err := os.Stat(s.Dir(first)); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("got %v, %v", info, err)
	}
	// Without stock a start makes its own.
	if second := create(t, s); !s.Has(second) {
		t.Fatal("no directory")
	}
}

// A rename replaces an empty directory: an id that a crash left with nothing but its directory would start
// again.
func TestStockTakesNoIdThatIsTaken(t *testing.T) {
	s, dir := open(t)
	bare := create(t, s)
	full := create(t, s)
	if err := s.AppendForgotten(full); err != nil {
		t.Fatal(err)
	}
	restock(t, s, 2)
	for _, id := range []string{bare, full} {
		was, err := os.Stat(s.Dir(id))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Create(id, false); !errors.Is(err, os.ErrExist) {
			t.Fatalf("got %v", err)
		}
		if !sameFile(t, was, s.Dir(id)) || inStock(t, dir) != 2 {
			t.Fatal("the directory was replaced")
		}
	}
}

func TestStockOutlivesItsKeeperAndIsBounded(t *testing.T) {
	s, dir := open(t)
	restock(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := spool.Open(dir, dir+"-aside")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	restock(t, again, 3)
	if n := inStock(t, dir); n != 3 {
		t.Fatalf("%d directories after a restart", n)
	}
	restock(t, again, 1<<20)
	if n := inStock(t, dir); n > 128 {
		t.Fatalf("%d directories", n)
	}
	ids, err := again.IDs()
	if err != nil || len(ids) != 0 {
		t.Fatalf("stock counts as execs: %v, %v", ids, err)
	}
	for inStock(t, dir) > 0 {
		create(t, again)
	}
}

func TestStockThatIsGoneIsMadeUpFor(t *testing.T) {
	s, dir := open(t)
	restock(t, s, 2)
	if err := os.RemoveAll(filepath.Join(dir, "stock")); err != nil {
		t.Fatal(err)
	}
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Begin(id, false, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if st, err := s.State(id); err != nil {
		t.Fatal(err)
	} else if _, err := st.Request(); err != nil {
		t.Fatal(err)
	}
}
