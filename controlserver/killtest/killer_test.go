package killtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
)

// atRandom counts the deaths at no point in particular.
const atRandom crashpoint.Point = "random"

// killer ends one server after the other, by turns at a random moment and at the point that has seen
// the fewest deaths.
type killer struct {
	m      *machine
	points []crashpoint.Point

	mu    sync.Mutex
	kills map[crashpoint.Point]int
}

func newKiller(m *machine, points ...crashpoint.Point) *killer {
	return &killer{m: m, points: points, kills: map[crashpoint.Point]int{}}
}

// run kills until ctx ends. Each server is let live for a moment: nothing would ever get done.
func (k *killer) run(ctx context.Context) error {
	for random := true; ctx.Err() == nil; random = !random {
		server := k.m.ServerPID()
		if !pause(ctx, whim()) {
			break
		}
		died, err := k.killAt(ctx, k.choose(random))
		if err != nil {
			return err
		}
		if !died {
			continue
		}
		// With ctx the run is over; a machine without a server shows elsewhere.
		_, _ = k.m.nextServer(ctx, server)
	}
	return nil
}

func (k *killer) choose(random bool) crashpoint.Point {
	if random || len(k.points) == 0 {
		return atRandom
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	least, few := []crashpoint.Point(nil), -1
	for _, p := range k.points {
		switch n := k.kills[p]; {
		case few < 0 || n < few:
			least, few = []crashpoint.Point{p}, n
		case n == few:
			least = append(least, p)
		}
	}
	return least[rand.N(len(least))]
}

// passing is how long a point is waited for, before another has its turn.
const passing = 3 * time.Second

// killAt says whether the server died there.
func (k *killer) killAt(ctx context.Context, p crashpoint.Point) (bool, error) {
	if p == atRandom {
		if err := k.m.kill(k.m.ServerPID()); err != nil {
			return false, err
		}
		k.count(p)
		return true, nil
	}
	if err := k.m.arm(p); err != nil {
		return false, fmt.Errorf("arm %s: %w", p, err)
	}
	if p == crashpoint.Adopted {
		// Only a new server comes there.
		if err := k.m.kill(k.m.ServerPID()); err != nil {
			return false, err
		}
		k.count(atRandom)
	}
	wait, cancel := context.WithTimeout(ctx, passing)
	defer cancel()
	_ = until(wait, func() bool { return !k.m.armed(p) })
	if k.m.disarm(p) {
		return p == crashpoint.Adopted, nil
	}
	k.count(p)
	return true, nil
}

func (k *killer) count(p crashpoint.Point) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills[p]++
}

// sum is all kills, and whether each kind has seen at least so many.
func (k *killer) sum(least int) (total int, each bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	each = k.kills[atRandom] >= least
	for _, p := range k.points {
		each = each && k.kills[p] >= least
	}
	for _, n := range k.kills {
		total += n
	}
	return total, each
}

func (k *killer) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := ""
	for _, p := range slices.Sorted(maps.Keys(k.kills)) {
		text += fmt.Sprintf("%s %d  ", p, k.kills[p])
	}
	return text
}
