// Package runtime_test measures the runtime against floors taken in the same run: make bench-runtime.
package runtime_test

import (
	"sync"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/bench/figure"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/floor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// BenchmarkAppendOne prints append_1: durable entries per second of one session that commits one at a time. The floor is a
// bare insert on one connection.
func BenchmarkAppendOne(b *testing.B) {
	const each, rounds = 100, 4 * rounds // short ones: a disk's moods last longer
	url := database(b)
	s := open(b, store.Options{URL: url, TTL: time.Hour})
	o := owners(b, s, 1)[0]
	raw := rows(b, url, 1)
	var values, floors []float64
	for round := range rounds + 1 {
		bare, err := raw.Insert(b.Context(), each, size)
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		for range each {
			if err := o.append(b, s); err != nil {
				b.Fatal(err)
			}
		}
		if round > 0 { // the first only warms both up
			values, floors = append(values, each/time.Since(begin).Seconds()), append(floors, bare)
		}
	}
	figure.Report("append_1", figure.Median(values), "1/s", figure.Median(floors))
}

// BenchmarkAppendThousand prints append_1000_sessions: durable entries per second of a thousand sessions over two connections.
// The floor is a pool of 64 connections with a bare insert each.
func BenchmarkAppendThousand(b *testing.B) {
	const sessions, each, rounds = 1000, 12, 2 * rounds
	url := database(b)
	s := open(b, store.Options{URL: url, TTL: time.Hour, Writers: 2})
	all := owners(b, s, sessions)
	raw := rows(b, url, 64)
	var values, floors []float64
	for round := range rounds + 1 {
		bare, err := raw.Insert(b.Context(), 100, size)
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		var wait sync.WaitGroup
		for _, o := range all {
			wait.Go(func() {
				for range each {
					if err := o.append(b, s); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wait.Wait()
		if round > 0 {
			values, floors = append(values, sessions*each/time.Since(begin).Seconds()), append(floors, bare)
		}
	}
	figure.Report("append_1000_sessions", figure.Median(values), "1/s", figure.Median(floors))
}

// BenchmarkClaim prints claim: sessions per second that four replicas claim in batches of 32, each with its submission begun. The
// floor is a bare insert on one connection.
func BenchmarkClaim(b *testing.B) {
	const replicas, batch, sessions = 4, 32, 1000
	url := database(b)
	s := open(b, store.Options{URL: url, TTL: time.Hour})
	raw := rows(b, url, 1)
	var executors []*store.Executor
	for range replicas {
		e, err := s.Register(b.Context(), "bench", "bench")
		if err != nil {
			b.Fatal(err)
		}
		executors = append(executors, e)
	}
	var values, floors []float64
	for range rounds {
		ready(b, s, sessions)
		bare, err := raw.Insert(b.Context(), 400, size)
		if err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		counts := make([]int, replicas)
		var wait sync.WaitGroup
		for i, e := range executors {
			wait.Go(func() {
				for {
					claims, err := s.Claim(b.Context(), e, batch)
					if err != nil {
						b.Error(err)
					}
					if counts[i] += len(claims); len(claims) == 0 {
						return
					}
				}
			})
		}
		wait.Wait()
		took, total := time.Since(begin), 0
		for _, n := range counts {
			total += n
		}
		if total != sessions {
			b.Fatalf("%d sessions were claimed, want %d", total, sessions)
		}
		values, floors = append(values, sessions/took.Seconds()), append(floors, bare)
	}
	figure.Report("claim", figure.Median(values), "1/s", figure.Median(floors))
}

// BenchmarkWake prints wake_p50: from the commit of an input on one replica to its claim on another. The floor is a bare NOTIFY
// from one connection to another.
func BenchmarkWake(b *testing.B) {
	const each = 40
	url := database(b)
	from, to := open(b, store.Options{URL: url, TTL: time.Hour}), open(b, store.Options{URL: url, TTL: time.Hour})
	e, err := to.Register(b.Context(), "bench", "bench")
	if err != nil {
		b.Fatal(err)
	}
	look, stop := to.Notifier().WatchReady()
	defer stop()
	var values, floors []float64
	for range rounds {
		bare, err := floor.Notify(b.Context(), url, each)
		if err != nil {
			b.Fatal(err)
		}
		var took []float64
		for range each {
			ready(b, from, 1)
			begin := time.Now()
			for claimed := 0; claimed == 0; {
				<-look
				claims, err := to.Claim(b.Context(), e, 1)
				if err != nil {
					b.Fatal(err)
				}
				claimed = len(claims)
			}
			took = append(took, figure.Milliseconds(time.Since(begin)))
		}
		values, floors = append(values, figure.Median(took)), append(floors, figure.Milliseconds(bare))
	}
	figure.Report("wake_p50", figure.Median(values), "ms", figure.Median(floors))
}

// BenchmarkLoad prints load_10000: reading a session of ten thousand entries of one KiB, ready to be folded. The floor reads as
// many bare rows.
func BenchmarkLoad(b *testing.B) {
	const entries = 10_000
	url := database(b)
	s := open(b, store.Options{URL: url, TTL: time.Hour})
	o := owners(b, s, 1)[0]
	raw := rows(b, url, 1)
	o.grow(b, s, entries)
	if _, err := raw.Insert(b.Context(), entries, size); err != nil {
		b.Fatal(err)
	}
	var values, floors []float64
	for round := range rounds + 1 {
		n, bare, err := raw.Select(b.Context())
		if err != nil || n != entries {
			b.Fatalf("%d rows, %v", n, err)
		}
		begin := time.Now()
		all, err := s.Load(b.Context(), tenant, o.claim.Session, 0, 0)
		if err != nil || len(all) != entries+1 {
			b.Fatalf("%d entries, %v", len(all), err)
		}
		if round > 0 {
			values, floors = append(values, figure.Milliseconds(time.Since(begin))), append(floors, figure.Milliseconds(bare))
		}
	}
	figure.Report("load_10000", figure.Median(values), "ms", figure.Median(floors))
}
