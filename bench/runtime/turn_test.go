package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/bench/figure"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model/scripted"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/tools"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/turn"
)

// reportAlone prints a figure that has no floor.
func reportAlone(name string, value float64, unit string) {
	fmt.Fprintf(os.Stdout, "\nBENCH %s %.3f %s floor=- ratio=-\n", name, value, unit)
}

// replica runs turns in this process, with a scripted model.
type replica struct {
	b     *testing.B
	store *store.Store
	agent driver.Agent
	// free ends the calls that wait.
	free chan struct{}
}

func newReplica(b *testing.B, url string) *replica {
	b.Helper()
	r := &replica{b: b, store: open(b, store.Options{URL: url, TTL: time.Hour}), free: make(chan struct{})}
	script, err := scripted.New(scripted.Config{})
	if err != nil {
		b.Fatal(err)
	}
	const pure, opaque = journalv1.EffectClass_EFFECT_CLASS_PURE, journalv1.EffectClass_EFFECT_CLASS_OPAQUE
	const allow, ask = journalv1.Policy_POLICY_ALLOW, journalv1.Policy_POLICY_ASK
	at := func(context.Context, tools.Call) (tools.Result, error) {
		return tools.Result{Content: []byte("ok")}, nil
	}
	slow := func(ctx context.Context, call tools.Call) (tools.Result, error) {
		select {
		case <-r.free:
			return at(ctx, call)
		case <-ctx.Done():
			return tools.Result{}, context.Cause(ctx)
		}
	}
	schema := json.RawMessage(`{"type":"object"}`)
	registry, err := tools.New(nil, tools.Tool{Name: "quick", Schema: schema, Class: pure, Policy: allow, Run: at},
		tools.Tool{Name: "slow", Schema: schema, Class: opaque, Policy: allow, Run: slow},
		tools.Tool{Name: "gated", Schema: schema, Class: opaque, Policy: ask, Run: at})
	if err != nil {
		b.Fatal(err)
	}
	r.agent = driver.Agent{Agent: turn.Agent{Provider: script.Provider(), Model: "script"}, Model: script, Tools: registry}
	for _, tool := range registry.Tools() {
		r.agent.Agent.Tools = append(r.agent.Agent.Tools, model.ToolDef{Name: tool.Name, Schema: tool.Schema})
	}
	return r
}

// Agent is the same, whatever its name.
func (r *replica) Agent(string) (driver.Agent, error) { return r.agent, nil }

// Open gives no machine: the tools need none.
func (r *replica) Open(context.Context, store.Claim) (driver.Place, error) {
	return driver.Place{Machine: "none"}, nil
}

// run claims and runs sessions until stop is called.
func (r *replica) run() (stop func()) {
	r.b.Helper()
	log := slog.New(slog.DiscardHandler)
	d, err := driver.New(driver.Options{Store: r.store, Agents: r, Machines: r, Log: log})
	if err != nil {
		r.b.Fatal(err)
	}
	e, err := executor.New(r.b.Context(), executor.Options{Store: r.store, Runner: d, DrainTime: time.Second, Log: log})
	if err != nil {
		r.b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx) }()
	return func() {
		cancel()
		if err := <-over; err != nil {
			r.b.Error(err)
		}
	}
}

func (r *replica) sessions(n int) []uuid.UUID {
	r.b.Helper()
	all := make([]uuid.UUID, n)
	for i := range all {
		all[i] = store.NewID()
		if _, err := r.store.CreateSession(r.b.Context(), tenant, "agent", all[i]); err != nil {
			r.b.Fatal(err)
		}
	}
	return all
}

func (r *replica) submit(session uuid.UUID, script string) {
	r.b.Helper()
	payload, err := driver.EncodeInput(driver.Text(script))
	if err != nil {
		r.b.Fatal(err)
	}
	if _, err := r.store.Submit(r.b.Context(), store.Input{Tenant: tenant, Session: session, Key: uuid.NewString(), Payload: payload}); err != nil {
		r.b.Fatal(err)
	}
}

// until polls for a number of sessions in a state.
func (r *replica) until(all []uuid.UUID, holds func(store.Session) bool) {
	r.b.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for _, id := range all {
		for {
			now, err := r.store.Session(r.b.Context(), tenant, id)
			if err != nil {
				r.b.Fatal(err)
			}
			if holds(now) {
				break
			}
			select {
			case <-tick.C:
			case <-deadline:
				r.b.Fatalf("session %s stays %s", id, now.State)
			}
		}
	}
}

func idle(s store.Session) bool { return s.State == store.SessionIdle }

// BenchmarkTurns prints turns_per_second: 64 sessions with queued inputs, one call of a trivial tool a turn, on one replica. The
// floor is how often a pool of 64 connections inserts as many bare rows as a turn has entries.
func BenchmarkTurns(b *testing.B) {
	const sessions, each, entriesOfTurn = 64, 6, 9
	url := database(b)
	r := newReplica(b, url)
	raw := rows(b, url, 64)
	all := r.sessions(sessions)
	var values, floors []float64
	for round := range rounds + 1 {
		bare, err := raw.Insert(b.Context(), 60, size)
		if err != nil {
			b.Fatal(err)
		}
		for _, id := range all {
			for range each {
				r.submit(id, "call: quick {}\nsay: ok")
			}
		}
		begin := time.Now()
		stop := r.run()
		r.until(all, idle)
		took := time.Since(begin)
		stop()
		if round > 0 {
			values, floors = append(values, sessions*each/took.Seconds()), append(floors, bare/entriesOfTurn)
		}
	}
	entries, err := r.store.Load(b.Context(), tenant, all[0], 0, 0)
	if want := 1 + (rounds+1)*each*entriesOfTurn; err != nil || len(entries) != want {
		b.Fatalf("%d entries of %d turns, want %d; %v", len(entries), (rounds+1)*each, want, err)
	}
	figure.Report("turns_per_second", figure.Median(values), "1/s", figure.Median(floors))
}

// BenchmarkIdleMemory prints memory_idle_session and memory_parked_session: heap and stacks per session that this replica owns
// while a call takes its time, and per session that waits for a person.
func BenchmarkIdleMemory(b *testing.B) {
	const sessions = 500
	url := database(b)
	r := newReplica(b, url)
	stop := r.run()
	warm := r.sessions(32)
	for _, id := range warm {
		r.submit(id, "call: quick {}\nsay: ok")
	}
	r.until(warm, idle)
	parked := r.sessions(sessions)
	rest := inUse()
	for _, id := range parked {
		r.submit(id, "call: gated {}\nsay: ok")
	}
	r.until(parked, func(s store.Session) bool { return s.State == store.SessionParked })
	reportAlone("memory_parked_session", (inUse()-rest)/sessions/(1<<20), "MiB")
	waiting := r.sessions(sessions)
	rest = inUse()
	for _, id := range waiting {
		r.submit(id, "call: slow {}\nsay: ok")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, id := range waiting {
		for {
			entries, err := r.store.Load(b.Context(), tenant, id, 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			if entries[len(entries)-1].Kind == journal.KindToolStarted {
				break
			}
			<-tick.C
		}
	}
	reportAlone("memory_idle_session", (inUse()-rest)/sessions/(1<<20), "MiB")
	close(r.free)
	r.until(waiting, idle)
	stop()
}

// inUse is what heap and stacks hold after a collection.
func inUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) + float64(m.StackInuse)
}

// BenchmarkResume prints resume_10000: what a claim costs before it can go on with a session of ten thousand entries: they are
// read and folded. The floor reads as many bare rows.
func BenchmarkResume(b *testing.B) {
	const entries, callsOfTurn = 10_000, 48
	url := database(b)
	r := newReplica(b, url)
	raw := rows(b, url, 1)
	id := r.sessions(1)[0]
	script := "call: quick {\"text\":\"" + strings.Repeat("x", size) + "\"}\n"
	script += strings.Repeat("+ "+script, callsOfTurn-1) + "say: ok"
	total := 0
	stop := r.run()
	for total < entries {
		r.submit(id, script)
		r.until([]uuid.UUID{id}, idle)
		all, err := r.store.Load(b.Context(), tenant, id, 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		total = len(all)
	}
	stop()
	if _, err := raw.Insert(b.Context(), total, size); err != nil {
		b.Fatal(err)
	}
	var values, floors []float64
	for round := range rounds + 1 {
		n, bare, err := raw.Select(b.Context())
		if err != nil || n != total {
			b.Fatalf("%d rows, %v", n, err)
		}
		begin := time.Now()
		all, err := r.store.Load(b.Context(), tenant, id, 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := journal.Fold(all); err != nil {
			b.Fatal(err)
		}
		if round > 0 {
			perEntry := float64(entries) / float64(total)
			values, floors = append(values, perEntry*figure.Milliseconds(time.Since(begin))), append(floors, perEntry*figure.Milliseconds(bare))
		}
	}
	figure.Report("resume_10000", figure.Median(values), "ms", figure.Median(floors))
}
