package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Of sessions over which owners died again and again, an executor gets fewer the more died; the last attempt it makes of one alone.
func TestSuspectsAreClaimedApart(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"dead", "ready"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			s := db.open(t, store.Options{TTL: time.Hour})
			var all []*turn
			for range 40 {
				all = append(all, begin(t, s))
			}
			deaths := func(n int) {
				t.Helper()
				if state == "dead" {
					n-- // the takeover is one more
				}
				db.exec(t, fmt.Sprintf("UPDATE submissions SET attempts = %d", n))
				if state == "ready" {
					db.exec(t, "UPDATE sessions SET state = 2, owner = NULL, wake_at = clock_timestamp()")
				} else {
					db.exec(t, "UPDATE sessions SET state = 3, owner = (SELECT id FROM executors ORDER BY started_at LIMIT 1)")
				}
			}
			for died, want := range []int{len(all), len(all), 16, 4, 1, 1} {
				if state == "dead" && died == 0 {
					continue
				}
				deaths(died)
				e := survivor(t, db, s)
				var got []store.Claim
				for {
					claims, err := s.Claim(t.Context(), e, 10)
					if err != nil {
						t.Fatal(err)
					}
					if len(claims) == 0 {
						break
					}
					got = append(got, claims...)
				}
				if len(got) != want || got[0].Attempts != died || got[0].Alone() != (want == 1) || e.Alone() != (want == 1) {
					t.Errorf("after %d deaths an executor gets %d, the first after %d attempts; want %d", died, len(got), got[0].Attempts, want)
				}
				if want == len(all) {
					continue
				}
				// Room comes with the end of one.
				if err := s.Release(t.Context(), got[0], time.Hour); err != nil {
					t.Fatal(err)
				}
				if claims, err := s.Claim(t.Context(), e, 10); err != nil || len(claims) != 1 {
					t.Errorf("after %d deaths and the end of one: claimed %+v, %v", died, claims, err)
				}
			}
		})
	}
}
