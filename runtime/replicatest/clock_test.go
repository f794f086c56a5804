//go:build linux

package replicatest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// johanhaleby/occurrent#659, mlflow/mlflow#25199: clocks differ by more than a lease, and one is set while its replica works.
// Nobody takes over what another one owns; a replica that is killed among them is taken over by the database's clock.
func TestClocksOfReplicasDecideNothing(t *testing.T) {
	t.Parallel()
	ttl := either(3*time.Second, 15*time.Second)
	r := newRig(t, ttl)
	var replicas []*replica
	for _, clock := range []settings{{Ahead: 2 * ttl}, {Ahead: -2 * ttl}, {SetAfter: ttl, SetBy: 2 * ttl}} {
		r.settings.Ahead, r.settings.SetAfter, r.settings.SetBy = clock.Ahead, clock.SetAfter, clock.SetBy
		replicas = append(replicas, r.start())
	}
	since := time.Now()
	var all []work
	for round := 0; time.Since(since) < 2*ttl; round++ {
		for i := range 6 {
			all = append(all, r.submit(fmt.Sprintf("%d-%d", round, i), busy))
		}
		r.completes(all[len(all)-6:])
	}
	if n := r.count("submissions WHERE attempts > 0"); n > 0 {
		t.Errorf("%d attempts were counted, though nobody died", n)
	}
	all = append(all, r.submitMany(12, busy)...)
	all = r.owns(replicas[0], 1, all)
	replicas[0].kill()
	r.completes(all)
	r.audit(all)
	r.faultless()
}

// NousResearch/hermes-agent#64934, strands-agents/harness-sdk#1176: messages come while a slow turn is under way. One runs at a time,
// on whichever replica, and they are worked on in the order in which they came.
func TestMessagesDuringASlowTurnWaitTheirTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, either(5*time.Second, 15*time.Second))
	r.startMany(2)
	session := store.NewID()
	if _, err := r.store.CreateSession(t.Context(), tenant, "agent", session); err != nil {
		t.Fatal(err)
	}
	var all []work
	submit := func(name, script string) {
		w, err := r.submitTo(session, name, script)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	submit("slow", "call: opaque {\"id\":\"%s\",\"wait_ms\":1500}\nsay: done")
	r.soon("the slow turn is under way", func() bool { return r.count("effects WHERE state = 3") == 1 })
	for i := range 4 {
		submit(fmt.Sprint(i), "call: opaque {\"id\":\"%s\"}\nsay: done")
	}
	r.completes(all)
	r.audit(all)
	r.faultless()
	entries, _ := r.history(all[0])
	var began, ended []work
	for _, entry := range entries {
		switch w := (work{session, entry.Submission}); entry.Kind {
		case journal.KindInputAccepted:
			if began = append(began, w); len(began) != len(ended)+1 {
				t.Errorf("submission %s begins while another one runs", w.id)
			}
		case journal.KindSubmissionSettled:
			ended = append(ended, w)
		default:
		}
	}
	if !slices.Equal(began, all) || !slices.Equal(ended, all) {
		t.Errorf("submitted %v, begun %v, ended %v", all, began, ended)
	}
}
