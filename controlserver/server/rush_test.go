//go:build linux

package server

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestMoreTurnsLastAsLongAsSomebodyHurries(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		r := new(rush)
		for range 5 {
			r.hurry()
			if n := runtime.GOMAXPROCS(0); n != leastTurns {
				t.Fatalf("%d turns in a rush", n)
			}
			time.Sleep(calmAfter * 3 / 4)
			synctest.Wait()
		}
		time.Sleep(3 * calmAfter)
		synctest.Wait()
		if n := runtime.GOMAXPROCS(0); n != 2 {
			t.Fatalf("%d turns after it", n)
		}
	})
}
