//go:build linux

package replicatest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// riverqueue/river#1258, riverqueue/river#682: a process is killed, and its jobs are "running" for an hour. Here its lease ends,
// and the others go on where it was.
func TestSessionsOfAKilledReplicaGoOn(t *testing.T) {
	t.Parallel()
	ttl := either(time.Second, 15*time.Second)
	r := newRig(t, ttl)
	victim := r.start()
	all := r.submitMany(20, busy)
	waiting := r.submit("w", "wait: 1h\nsay: never")
	r.soon("it works on all of it", func() bool {
		return r.owned(victim) > 15 && r.count("effects WHERE state = 3") > 5 && r.count("journal WHERE session_id = $1 AND kind = $2", waiting.session, journal.KindModelRequested) == 1
	})
	victim.kill()
	next := r.start()
	r.completes(all)
	if now := next.status(); now.TakenOver < 10 {
		t.Errorf("%d sessions were taken over", now.TakenOver)
	}
	// A model call has no effect: it is asked again, and the attempt is counted.
	r.soon("the model is asked again", func() bool {
		return r.count("journal WHERE session_id = $1 AND kind = $2", waiting.session, journal.KindModelRequested) == 2
	})
	if err := r.store.Cancel(t.Context(), tenant, waiting.id); err != nil {
		t.Fatal(err)
	}
	if now := r.settled(waiting); now.Attempts != 1 {
		t.Errorf("%d attempts, want 1", now.Attempts)
	}
	r.audit(append(all, waiting))
	r.faultless()
}

// openclaw/openclaw#124941, vectorize-io/hindsight#2675: a turn that kills its process is taken up again for ever. Here the claims
// that follow a death are counted, and after five the submission is settled without touching what killed them. The
// session's next submission is worked on.
func TestTurnThatKillsItsProcessIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, 500*time.Millisecond)
	poison := r.submit("p", `{"calls":[{"tool":"keyed","args":{"id":"%s","after":"die always"}}]}
say: never`)
	after, err := r.submitTo(poison.session, "q", "call: opaque {\"id\":\"%s\"}\nsay: done")
	if err != nil {
		t.Fatal(err)
	}
	p := r.start()
	deaths := 0
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		if p.dead() {
			p.wait()
			if deaths++; deaths > 10 {
				t.Fatal("it goes on for ever")
			}
			p = r.start()
		}
		now, err := r.store.Submission(t.Context(), tenant, after.id)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == store.SubmissionSettled {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("the queue does not move on after %d deaths", deaths)
		}
	}
	if n := left(t, r.settings.Effects)["death p after"]; n != 5 || deaths != 5 {
		t.Errorf("the turn killed %d processes, and %d died; want 5", n, deaths)
	}
	now := r.settled(poison)
	_, state := r.history(poison)
	if now.Outcome != failed || now.Attempts != 5 {
		t.Errorf("settled as %s after %d attempts", now.Outcome, now.Attempts)
	}
	want := []string{"keyed: " + journalv1.ToolOutcome_TOOL_OUTCOME_UNKNOWN.String(), "opaque: " + journalv1.ToolOutcome_TOOL_OUTCOME_OK.String()}
	if got := results(state); !slices.Equal(got, want) {
		t.Errorf("results %v, want %v", got, want)
	}
	entries, _ := r.history(poison)
	for _, entry := range entries {
		if entry.Kind == journal.KindSubmissionSettled && entry.Submission == poison.id {
			if unknown := entry.Body.GetSubmissionSettled().GetUnknownCalls(); len(unknown) != 1 {
				t.Errorf("unknown calls %v", unknown)
			}
		}
	}
	r.completes([]work{after})
	r.audit([]work{poison, after})
	r.faultless()
}

// dbos-inc/dbos-transact-py#716, dbos-inc/dbos-transact-py#742, dbos-inc/dbos-transact-java#491: replicas that roll over have the same
// executor id for a while, and recover each other's work. Here an id is of one process, and a release in good order
// counts no attempt.
func TestRollingReplicasHandOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, either(10*time.Second, 15*time.Second))
	old := r.startMany(2)
	var all []work
	for round := range either(2, 6) {
		for i := range 12 {
			all = append(all, r.submit(fmt.Sprintf("%d-%d", round, i), busy))
		}
		for i, p := range old {
			all = r.owns(p, 1, all)
			next := r.start()
			p.drain()
			old[i] = next
		}
	}
	r.completes(all)
	r.audit(all)
	r.faultless()
	if n := r.count("submissions WHERE attempts > 0"); n > 0 {
		t.Errorf("%d submissions were counted as if an owner had died", n)
	}
	replicas, err := r.store.Replicas(t.Context())
	if err != nil || len(replicas) != r.started {
		t.Errorf("%d executors of %d processes, %v", len(replicas), r.started, err)
	}
	for _, w := range all {
		if _, state := r.history(w); slices.ContainsFunc(results(state), func(result string) bool { return !strings.HasSuffix(result, "_OK") }) {
			t.Errorf("session %s: results %v: a drain leaves nothing unknown", w.session, results(state))
		}
	}
}

// langchain-ai/langgraph#7417, langchain-ai/langgraph#7213: a tool takes longer than the sweeper waits, and its run is begun a second
// time. Here a beat covers all that a process does, however long that is.
func TestCallLongerThanTheLeaseIsBegunOnce(t *testing.T) {
	t.Parallel()
	ttl := either(2*time.Second, 15*time.Second)
	r := newRig(t, ttl)
	replicas := r.startMany(2)
	var all []work
	for _, class := range []string{"opaque", "keyed", "pure"} {
		script := fmt.Sprintf("call: %s {\"id\":\"%%s\",\"wait_ms\":%d}\nsay: done", class, (3 * ttl).Milliseconds())
		for i := range 3 {
			all = append(all, r.submit(fmt.Sprintf("%s-%d", class, i), script))
		}
	}
	r.completes(all)
	r.audit(all)
	r.faultless()
	for what, n := range left(t, r.settings.Effects) {
		if n != 1 {
			t.Errorf("%s was done %d times", what, n)
		}
	}
	for _, p := range replicas {
		if now := p.status(); now.TakenOver != 0 || now.Fenced != 0 {
			t.Errorf("%s took over %d sessions and lost %d, though nobody died", p.name, now.TakenOver, now.Fenced)
		}
	}
}
