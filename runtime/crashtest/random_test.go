//go:build linux

package crashtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// rounds is how many runs are killed at random; FLYFLEET_CRASH_ROUNDS says otherwise.
func rounds(t *testing.T) int {
	if given := os.Getenv("FLYFLEET_CRASH_ROUNDS"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if long() {
		return 220
	}
	return 3
}

// TestKilledByProgress kills replicas when the work has come to an entry drawn by lot, up to four times a run; some of
// them are asked to stop instead. FLYFLEET_CRASH_SEED repeats a run's lots.
func TestKilledByProgress(t *testing.T) {
	m := startBare(t)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("FLYFLEET_CRASH_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FLYFLEET_CRASH_SEED=%d", seed)
	t.Run("runs", func(t *testing.T) {
		for n := range rounds(t) {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				byProgress(t, m, rand.New(rand.NewPCG(seed, uint64(n))))
			})
		}
	})
}

func byProgress(t *testing.T, m *computer, lots *rand.Rand) {
	x := newTrial(t, m)
	at := 0
	for range 1 + lots.IntN(4) {
		r := x.start()
		at += 1 + lots.IntN(12)
		if x.reaches(at, r) {
			// Somewhere on the way to the next entry.
			x.after(time.Duration(lots.IntN(250)) * time.Millisecond)
		}
		if lots.IntN(4) == 0 {
			r.stop()
		} else {
			r.kill()
			kills.Add(1)
		}
		if x.isSettled() {
			break
		}
	}
	x.finish()
}

// reaches waits until there are so many entries, or the work is done.
func (x *trial) reaches(entries int, r *replica) bool {
	x.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		select {
		case <-tick.C:
			if len(x.entries()) >= entries {
				return true
			}
			if x.isSettled() {
				return false
			}
		case <-r.dead:
			x.t.Fatalf("a replica ended by itself:\n%s", r.log.String())
		case <-deadline:
			x.t.Fatalf("there are not %d entries in time: %v\n%s", entries, x.kinds(), r.log.String())
		}
	}
}

// after lets time pass: the moment of a death is drawn, nothing waits for it.
func (x *trial) after(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
