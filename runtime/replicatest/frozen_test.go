//go:build linux

package replicatest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
)

// busy is a turn with calls of each class, two at once, and a model that takes its time.
const busy = `call: opaque {"id":"%s-a","wait_ms":60}
+ call: pure {"id":"%s-b","wait_ms":90}
wait: 50ms
call: keyed {"id":"%s-c","wait_ms":70}
call: pure {"id":"%s-d","wait_ms":40}
+ call: keyed {"id":"%s-e"}
wait: 80ms
call: opaque {"id":"%s-f","wait_ms":80}
wait: 40ms
call: keyed {"id":"%s-g","wait_ms":50}
say: done`

// Owners stand still for longer than their lease, wherever they are, and go on as if nothing had been: riverqueue/river#1302, where
// a rescuer reads "running", the worker completes, and the rescuer writes. Here both writes name the fence that they read.
func TestFrozenOwnersWriteNothingMore(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprintf("%d replicas", n), func(t *testing.T) {
			t.Parallel()
			ttl := either(time.Second, 15*time.Second)
			frozenFor := either(2*ttl, time.Minute)
			r := newRig(t, ttl)
			replicas := r.startMany(n)
			var all []work
			for round := range either(2, 4) {
				for i := range 12 * n {
					all = append(all, r.submit(fmt.Sprintf("%d-%d", round, i), busy))
				}
				victims := slices.Clone(replicas)
				rand.Shuffle(n, func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
				victims = victims[:n/2]
				for _, victim := range victims {
					all = r.owns(victim, 3, all)
					victim.freeze()
				}
				since := time.Now()
				r.soon("the victims' sessions have other owners, and their lease is long over", func() bool {
					for _, victim := range victims {
						if r.owned(victim) > 0 {
							return false
						}
					}
					return time.Since(since) >= frozenFor
				})
				for _, victim := range victims {
					victim.thaw()
				}
			}
			r.completes(all)
			r.audit(all)
			r.faultless()
			var fenced, took int64
			for _, p := range replicas {
				now := p.status()
				fenced, took = fenced+now.Fenced, took+now.TakenOver
			}
			t.Logf("%d sessions taken over, %d runs fenced", took, fenced)
			if fenced == 0 || took == 0 {
				t.Errorf("%d sessions were taken over and %d runs fenced: nothing was shown", took, fenced)
			}
		})
	}
}

// An owner stands still between a call's effect and its result, when nothing but the append of the result is left to do: it
// comes after the next owner's, and must change nothing.
func TestResultOfAFrozenOwnerComesTooLate(t *testing.T) {
	t.Parallel()
	const sessions = 12
	for _, class := range []string{"opaque", "keyed", "pure"} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, time.Second)
			first := r.start()
			all := r.submitMany(sessions, `{"calls":[{"tool":"`+class+`","args":{"id":"%s-a","wait_ms":300}},{"tool":"`+class+`","args":{"id":"%s-b","wait_ms":300}}]}
call: `+class+` {"id":"%s-c"}
say: done`)
			frozen := r.submit("ice", `call: `+class+` {"id":"%s-a","after":"freeze"}
say: done`)
			r.soon("the owner stands still", first.frozen)
			second := r.start()
			r.completes(append(all, frozen))
			first.thaw()
			r.soon("the first owner knows", func() bool { return first.status().Running == 0 })
			r.audit(append(all, frozen))
			r.faultless()
			if second.status().TakenOver == 0 || first.status().Fenced == 0 {
				t.Errorf("first %+v, second %+v", first.status(), second.status())
			}
			_, state := r.history(frozen)
			want := []string{class + ": " + journalv1.ToolOutcome_TOOL_OUTCOME_OK.String()}
			if class == "opaque" {
				want = []string{class + ": " + journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN.String()}
			}
			if got := results(state); !slices.Equal(got, want) {
				t.Errorf("results %v, want %v", got, want)
			}
		})
	}
}

// A replica whose beats do not get through may still reach everything else. Once it can no longer be sure that it lives, by
// the time that its beats are good for, it starts nothing: others may be about to take over.
func TestReplicaThatCannotBeatStartsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1200*time.Millisecond)
	p := r.start()
	script := ""
	for i := range 70 {
		script += fmt.Sprintf("call: opaque {\"id\":\"%%s-%d\",\"wait_ms\":20}\n", i)
	}
	all := r.submitMany(3, script+"say: done")
	started := func() int { return r.count("effects WHERE state IN (3, 4)") }
	r.soon("the turns are under way", func() bool { return started() > 10 })
	free := r.lock("SELECT 1 FROM executors WHERE address = '" + p.name + "' FOR UPDATE")
	r.soon("the replica trusts itself no more", func() bool { return !p.status().Trusted })
	r.soon("what it had begun is over", func() bool { return r.count("effects WHERE state = 3") == 0 })
	before := started()
	r.soon("it counts as dead", func() bool {
		return r.count("executors WHERE address = $1 AND beat_at < clock_timestamp() - interval '2.4 s'", p.name) == 1
	})
	if now := started(); now != before {
		t.Errorf("%d calls were started by a replica that could not beat", now-before)
	}
	free()
	r.completes(all)
	r.audit(all)
	r.faultless()
}
