//go:build linux

package replicatest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
)

// connections is the most that a replica has, whatever it does: 4 for queries, 2 writers, 1 for output, 1 that listens.
const connections = 8

// A session that waits for a person is a row. It holds no goroutine, no connection and no machine, on whichever replica; any
// replica takes the decision, and any replica goes on.
func TestParkedSessionsHoldNothing(t *testing.T) {
	t.Parallel()
	sessions, decided := either(500, 10_000), either(20, 200)
	r := newRig(t, either(10*time.Second, 15*time.Second))
	replicas := r.startMany(2)
	rest := atRest(replicas[0])
	all := r.submitMany(sessions, `call: pure {"id":"%s-a"}
call: gated {"id":"%s-b"}
say: done`)
	parked := func() int { return r.count("sessions WHERE state = 4 AND owner IS NULL") }
	r.soon("all are parked", func() bool { return parked() == sessions })
	for _, p := range replicas {
		r.holdsNothing(p, rest)
		if now := p.status(); now.Opened == 0 {
			t.Errorf("%s had no machine open: nothing was shown", p.name)
		}
		p.kill()
	}
	replicas = r.startMany(2)
	for _, p := range replicas {
		r.holdsNothing(p, rest)
		if now := p.status(); now.Claimed != 0 || now.Opened != 0 {
			t.Errorf("%s took up %d parked sessions and opened %d machines", p.name, now.Claimed, now.Opened)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, w := range all[:decided] {
		var card uuid.UUID
		r.query(&card, "SELECT id FROM approvals WHERE session_id = $1", w.session)
		replicas[rand.IntN(len(replicas))].decide(card)
	}
	r.completes(all[:decided])
	traces := left(t, r.settings.Effects)
	done := 0
	for what, n := range traces {
		if n != 1 {
			t.Errorf("%s was done %d times", what, n)
		}
		if what[:min(5, len(what))] == "gated" {
			done++
		}
	}
	if done != decided || parked() != sessions-decided {
		t.Errorf("%d calls were done of %d that were allowed, %d sessions are parked", done, decided, parked())
	}
	for _, p := range replicas {
		r.holdsNothing(p, rest)
	}
	for _, w := range all[:decided] {
		r.history(w)
	}
	r.faultless()
}

// atRest is how many goroutines a replica has that has nothing to do.
func atRest(p *replica) int {
	p.t.Helper()
	least := p.status().Goroutines
	for range 20 {
		least = min(least, p.status().Goroutines)
	}
	return least
}

// holdsNothing: the replica comes to rest as one that has no session at all.
func (r *rig) holdsNothing(p *replica, rest int) {
	r.t.Helper()
	var now status
	r.soon(p.name+" is at rest", func() bool {
		now = p.status()
		return now.Running == 0 && now.Goroutines <= rest && now.Opened == now.Closed
	})
	// What a second of polling needs comes and goes; nothing may stay.
	r.soon(p.name+" holds no transaction", func() bool {
		return r.count("pg_stat_activity WHERE application_name = $1 AND state <> 'idle' AND datname = current_database()", p.name) == 0
	})
	if n := r.count("pg_stat_activity WHERE application_name = $1 AND datname = current_database()", p.name); n > connections {
		r.t.Errorf("%s has %d connections, want at most %d", p.name, n, connections)
	}
}
