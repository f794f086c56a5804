//go:build linux

package replicatest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// A process dies with all its sessions, and its death counts for each: those beside the one that kills it must not be given up
// for it. openclaw/openclaw#124941, vectorize-io/hindsight#2675.
func TestPoisonTakesNoNeighbourAlong(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", n), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2*time.Second)
			// A neighbour has more to do than the deaths take, a little in each life of its owner.
			var steps strings.Builder
			for i := range 16 {
				fmt.Fprintf(&steps, "call: pure {\"id\":\"%%s-%d\",\"wait_ms\":40}\n", i)
			}
			neighbours := r.submitMany(20, steps.String()+"say: done")
			poison := r.submit("p", `{"calls":[{"tool":"keyed","args":{"id":"%s","wait_ms":50,"before":"die always"}}]}
say: never`)
			replicas := r.startMany(n)
			r.soon("all have an end", func() bool {
				for i, p := range replicas {
					if p.dead() {
						p.wait()
						replicas[i] = r.start()
					}
				}
				return r.count("submissions WHERE state = 5") == len(neighbours)+1
			})
			if now := r.settled(poison); now.Outcome != failed || now.Attempts != turn.MaxAttempts {
				t.Errorf("the poison settled as %s after %d attempts", now.Outcome, now.Attempts)
			}
			// Of two, one may have been so slow that the other took it for dead.
			if deaths := left(t, r.settings.Effects)["death p before"]; deaths > turn.MaxAttempts || n == 1 && deaths < turn.MaxAttempts {
				t.Errorf("%d processes died of it", deaths)
			}
			r.completes(neighbours)
			died := 0
			for _, w := range neighbours {
				now := r.settled(w)
				if died += now.Attempts; now.Attempts > store.AloneAfter {
					t.Errorf("session %s: %d attempts", w.session, now.Attempts)
				}
			}
			if died < len(neighbours) {
				t.Errorf("%d deaths beside the neighbours: nothing was shown", died)
			}
			r.audit(append(neighbours, poison))
			r.faultless()
		})
	}
}

// A session over which four owners have died is tried alone: its owner hands the others over, with no attempt counted, claims
// nothing beside it, and takes them up again when it has ended.
func TestLastAttemptIsMadeAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, either(5*time.Second, 15*time.Second))
	suspect := r.submit("s", `call: opaque {"id":"%s","wait_ms":2000}
say: done`)
	r.change("UPDATE submissions SET state = 2, attempts = 4 WHERE session_id = $1", suspect.session)
	r.change("UPDATE sessions SET wake_at = clock_timestamp() + interval '1 hour' WHERE id = $1", suspect.session)
	p := r.start()
	others := r.submitMany(8, `call: pure {"id":"%s-a","wait_ms":3000}
call: keyed {"id":"%s-b","wait_ms":3000}
call: pure {"id":"%s-c","wait_ms":3000}
say: done`)
	r.soon("the others are under way", func() bool { return r.owned(p) == len(others) })
	r.change("UPDATE sessions SET wake_at = clock_timestamp() WHERE id = $1", suspect.session)
	r.soon("it works alone", func() bool {
		return r.count("effects WHERE session_id = $1 AND state = 3 AND $2 = (SELECT count(*) FROM sessions WHERE state = 2 AND owner IS NULL)",
			suspect.session, len(others)) == 1
	})
	all := append(others, suspect)
	r.completes(all)
	r.audit(all)
	r.faultless()
	if n := r.count("submissions WHERE attempts > 0"); n != 1 {
		t.Errorf("attempts are counted for %d submissions", n)
	}
}

// The database is away for longer than the lease, under load. Nobody has died: who comes back first takes nothing from one
// that comes a little later, and no attempt is counted.
func TestOutageLongerThanTheLeaseKillsNobody(t *testing.T) {
	t.Parallel()
	ttl := either(5*time.Second, 15*time.Second)
	s, url := server(t, pglocal.Settings{})
	r := newRigOn(t, url, ttl)
	replicas := r.startMany(2)
	all := r.submitMany(24, busy)
	for _, p := range replicas {
		all = r.owns(p, 3, all)
	}
	if err := s.Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	r.soon("the leases are long over", func() bool { return time.Since(since) > 2*ttl })
	for _, p := range replicas {
		if p.status().Trusted {
			t.Errorf("%s trusts itself", p.name)
		}
	}
	replicas[0].freeze()
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Once the other one has claimed something it has looked for sessions of the dead too.
	all = append(all, r.submit("later", busy))
	r.soon("the other one claims", func() bool { return r.count("sessions WHERE id = $1 AND fence > 0", all[len(all)-1].session) == 1 })
	replicas[0].thaw()
	r.completes(all)
	r.audit(all)
	r.faultless()
	if n := r.count("submissions WHERE attempts > 0"); n > 0 {
		t.Errorf("%d attempts were counted, though nobody died", n)
	}
	for _, p := range replicas {
		if now := p.status(); now.TakenOver > 0 || now.Fenced > 0 {
			t.Errorf("%s took over %d sessions and lost %d, though nobody died", p.name, now.TakenOver, now.Fenced)
		}
	}
}
