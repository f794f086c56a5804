//go:build linux

package keeper

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
)

func TestStockIsMadeInQuietForTheBusiestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "spool")
		sp, err := spool.Open(dir, dir+"-aside")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sp.Close() }()
		r := newRestocker(sp, slog.New(slog.DiscardHandler))
		defer r.close()
		stock := func() int {
			synctest.Wait()
			made, err := os.ReadDir(filepath.Join(dir, "stock"))
			if err != nil {
				t.Fatal(err)
			}
			return len(made)
		}
		time.Sleep(3 * quietFor)
		if n := stock(); n != leastStock {
			t.Fatalf("%d before the first start", n)
		}
		for range 50 {
			r.note()
			time.Sleep(quietFor / 3)
			if n := stock(); n != leastStock {
				t.Fatalf("%d while starts come", n)
			}
		}
		time.Sleep(3 * quietFor)
		if n := stock(); n != 50 {
			t.Fatalf("%d after 50 starts", n)
		}
		r.note()
		time.Sleep(3 * quietFor)
		if n := stock(); n != 50 {
			t.Fatalf("%d after one more", n)
		}
	})
}
