//go:build linux

package replicatest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

const (
	tenant = "acme"
	// patience bounds every wait of a test.
	patience = 2 * time.Minute

	completed = journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED
	failed    = journalv1.SettledOutcome_SETTLED_OUTCOME_FAILED
)

// long says that the tests are to take the real times and numbers.
func long() bool { return os.Getenv("FLYFLEET_TEST_LONG") != "" }

func either[T any](short, inLong T) T {
	if long() {
		return inLong
	}
	return short
}

// rig is a database with replicas, and a client of theirs.
type rig struct {
	t        testing.TB
	url      string
	settings settings
	store    *store.Store
	started  int
	replicas []*replica
	logs     *os.File
}

func newRig(t testing.TB, ttl time.Duration) *rig {
	t.Helper()
	return newRigOn(t, pgtest.Migrated(t), ttl)
}

func newRigOn(t testing.TB, url string, ttl time.Duration) *rig {
	t.Helper()
	r := &rig{t: t, url: url, settings: settings{TTL: ttl, Effects: t.TempDir()}}
	var err error
	if r.logs, err = os.Create(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the replicas:\n%s", r.log())
		}
		r.logs.Close()
	})
	if r.store, err = store.Open(t.Context(), store.Options{URL: url, TTL: ttl, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.store.Close)
	return r
}

// log is the end of what the replicas have logged.
func (r *rig) log() string {
	text, err := os.ReadFile(r.logs.Name())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// named is the database under a name that its list of connections shows.
func named(t testing.TB, text, name string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("application_name", name)
	u.RawQuery = query.Encode()
	return u.String()
}

// work is a submission in a session of its own.
type work struct{ session, id uuid.UUID }

// submit gives a script to a session of its own. What the script does is named by its lines: "%s" is the name.
func (r *rig) submit(name, script string) work {
	r.t.Helper()
	made, err := r.trySubmit(name, script)
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

func (r *rig) trySubmit(name, script string) (work, error) {
	id := store.NewID()
	if _, err := r.store.CreateSession(r.t.Context(), tenant, "agent", id); err != nil {
		return work{}, err
	}
	return r.submitTo(id, name, script)
}

func (r *rig) submitTo(session uuid.UUID, name, script string) (work, error) {
	payload, err := driver.EncodeInput(driver.Text(strings.ReplaceAll(script, "%s", name)))
	if err != nil {
		return work{}, err
	}
	made, err := r.store.Submit(r.t.Context(), store.Input{Tenant: tenant, Session: session, Key: name, Payload: payload})
	return work{session: session, id: made.ID}, err
}

// submitMany gives scripts to sessions at once; a name is the number.
func (r *rig) submitMany(n int, script string) []work {
	r.t.Helper()
	all := make([]work, n)
	failures := make([]error, n)
	var wait sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		wait.Go(func() {
			for i := range numbers {
				all[i], failures[i] = r.trySubmit(fmt.Sprint(i), script)
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	wait.Wait()
	if err := errors.Join(failures...); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// settled waits for the end of a submission.
func (r *rig) settled(w work) store.Submission {
	r.t.Helper()
	var now store.Submission
	r.soon("submission "+w.id.String()+" settles", func() bool {
		var err error
		if now, err = r.store.Submission(r.t.Context(), tenant, w.id); err != nil {
			r.t.Fatal(err)
		}
		return now.State == store.SubmissionSettled
	})
	return now
}

// completes waits for the good end of all submissions.
func (r *rig) completes(all []work) {
	r.t.Helper()
	for _, w := range all {
		if now := r.settled(w); now.Outcome != completed {
			_, state := r.history(w)
			r.t.Errorf("submission %s: %s after %d attempts, %v", w.id, now.Outcome, now.Attempts, state.Submissions[len(state.Submissions)-1])
		}
	}
}

// soon polls until something holds.
func (r *rig) soon(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// query asks the database itself.
func (r *rig) query(into any, sql string, args ...any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql, args...).Scan(into); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// change alters the database behind everybody's back.
func (r *rig) change(sql string, args ...any) {
	r.t.Helper()
	var n int
	r.query(&n, "WITH changed AS ("+sql+" RETURNING 1) SELECT count(*) FROM changed", args...)
	if n == 0 {
		r.t.Fatalf("%s: no row", sql)
	}
}

func (r *rig) count(sql string, args ...any) int {
	r.t.Helper()
	n := 0
	r.query(&n, "SELECT count(*) FROM "+sql, args...)
	return n
}

// owns waits until a replica owns n sessions, and submits more whenever nothing is left to do: the others may have been faster.
// It returns all work, with what it added.
func (r *rig) owns(p *replica, n int, all []work) []work {
	r.t.Helper()
	r.soon(p.name+" owns sessions", func() bool {
		if r.count("sessions WHERE state IN (2, 3)") == 0 {
			for range 24 {
				all = append(all, r.submit(fmt.Sprintf("%s-%d", p.name, len(all)), busy))
			}
		}
		return r.owned(p) >= n
	})
	return all
}

// owned says how many sessions a replica owns, as the database has it.
func (r *rig) owned(p *replica) int {
	r.t.Helper()
	return r.count("sessions s JOIN executors e ON e.id = s.owner WHERE e.address = $1", p.name)
}

// history is a session's journal, which must be one that could have been: dense, its fences in order, one start at most and
// one result a call, one end a submission.
func (r *rig) history(w work) ([]journal.Entry, *journal.State) {
	r.t.Helper()
	entries, err := r.store.Load(r.t.Context(), tenant, w.session, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	state := new(journal.State)
	counts := map[string]int{}
	fence := int64(0)
	for i, entry := range entries {
		if err := state.Apply(entry); err != nil {
			r.t.Fatalf("session %s: %v", w.session, err)
		}
		if entry.Seq != int64(i)+1 || entry.Fence < fence {
			r.t.Errorf("session %s: entry %d comes as number %d, under fence %d after %d", w.session, entry.Seq, i+1, entry.Fence, fence)
		}
		fence = entry.Fence
		switch entry.Kind {
		case journal.KindToolStarted, journal.KindToolResult, journal.KindExecExited, journal.KindExecLost:
			counts[entry.Kind.String()+" of call "+entry.Call]++
		case journal.KindSubmissionSettled, journal.KindInputAccepted:
			counts[entry.Kind.String()+" of submission "+entry.Submission.String()]++
		default:
		}
	}
	for what, n := range counts {
		if n > 1 {
			r.t.Errorf("session %s: %d entries %s", w.session, n, what)
		}
	}
	return entries, state
}

// audit holds for sessions whose work has settled: the journal, the rows and the traces say the same.
func (r *rig) audit(all []work) {
	r.t.Helper()
	traces := left(r.t, r.settings.Effects)
	for what, n := range traces {
		tool, _, _ := strings.Cut(what, " ")
		if n > 1 && (tool == "opaque" || tool == "keyed" || tool == "gated") {
			r.t.Errorf("%s was done %d times", what, n)
		}
	}
	for _, w := range all {
		_, state := r.history(w)
		if open := state.Open(); open != nil {
			r.t.Errorf("session %s: submission %s has no end in the journal", w.session, open.ID)
		}
		for _, call := range state.Calls {
			if !call.Settled() {
				r.t.Errorf("session %s: call %s has no result", w.session, call.ID)
				continue
			}
			id, did := strings.CutPrefix(string(call.Result.Content), "did ")
			if did && traces[call.Tool+" "+id] == 0 {
				r.t.Errorf("session %s: %s %s is said to be done, and was not", w.session, call.Tool, id)
			}
		}
	}
	if n := r.count("effects WHERE state <> 4"); n > 0 {
		r.t.Errorf("%d effects are not settled", n)
	}
	r.soon("sessions are given up", func() bool { return r.count("sessions WHERE state = 3") == 0 })
}

// faultless: no run ended otherwise than in good order or by a fence, on the replicas that live.
func (r *rig) faultless() {
	r.t.Helper()
	for _, p := range r.replicas {
		if p.dead() {
			continue
		}
		if now := p.status(); len(now.Faults) > 0 {
			r.t.Errorf("%s: %d faults, %s", p.name, len(now.Faults), strings.Join(now.Faults[:min(3, len(now.Faults))], "; "))
		}
	}
}

// results are the contents of a session's results by their calls' tools, with the outcome.
func results(state *journal.State) []string {
	var all []string
	for _, call := range state.Calls {
		if call.Result != nil {
			all = append(all, fmt.Sprintf("%s: %s", call.Tool, call.Result.Outcome))
		}
	}
	slices.Sort(all)
	return all
}
