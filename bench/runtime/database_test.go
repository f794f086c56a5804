package runtime_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/bench/figure"
	"github.com/flyfleet/terraform-provider-flyfleet/bench/floor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pgtest"
)

// rounds are taken of each figure, floor and store in turn, so that a neighbour's load meets both.
const rounds = 5

const (
	tenant = "bench"
	size   = 1024
)

func TestMain(m *testing.M) { os.Exit(figure.Main(m)) }

// database is a cluster that makes every commit durable, as the defaults do. Its log has room for a run, as that of one that has
// been up for a while: what fills a new file of the log with zeros is paid by whoever commits then, floor or store.
func database(b *testing.B) string {
	b.Helper()
	server, err := pglocal.Start(b.Context(), pglocal.Settings{"shared_buffers": "256MB", "max_connections": "200"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Stop)
	url := pgtest.DatabaseOn(b, server)
	if err := store.Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	if err := recycleLog(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	return url
}

// recycleLog uses files of the log up, which a checkpoint then keeps to be used again.
func recycleLog(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	for range 24 {
		if _, err := conn.Exec(ctx, "SELECT txid_current(), pg_switch_wal()"); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	return errors.Join(err, conn.Close(ctx))
}

func open(b *testing.B, o store.Options) *store.Store {
	b.Helper()
	s, err := store.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

func rows(b *testing.B, url string, conns int) *floor.Rows {
	b.Helper()
	r, err := floor.NewRows(b.Context(), url, conns)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(b.Context()); err != nil {
			b.Log(err)
		}
	})
	return r
}

// owner is at work on a session.
type owner struct {
	claim store.Claim
	last  int64
}

// owners makes sessions and claims them.
func owners(b *testing.B, s *store.Store, n int) []*owner {
	b.Helper()
	ready(b, s, n)
	e, err := s.Register(b.Context(), "bench", "bench")
	if err != nil {
		b.Fatal(err)
	}
	var all []*owner
	for len(all) < n {
		claims, err := s.Claim(b.Context(), e, n-len(all))
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range claims {
			all = append(all, &owner{claim: c, last: 1})
		}
	}
	return all
}

// ready makes sessions that wait to be claimed.
func ready(b *testing.B, s *store.Store, n int) {
	b.Helper()
	for range n {
		id := store.NewID()
		if _, err := s.CreateSession(b.Context(), tenant, "agent", id); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Submit(b.Context(), store.Input{Tenant: tenant, Session: id, Key: "k"}); err != nil {
			b.Fatal(err)
		}
	}
}

var text = strings.Repeat("x", size)

// append commits one entry of one KiB.
func (o *owner) append(b *testing.B, s *store.Store) error {
	_, err := s.Commit(b.Context(), o.claim, store.Step{After: o.last, Entries: []journal.Entry{{Body: &journalv1.Body{
		Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: text}},
	}}}})
	if err == nil {
		o.last++
	}
	return err
}

// grow adds entries of one KiB, many a step.
func (o *owner) grow(b *testing.B, s *store.Store, n int) {
	b.Helper()
	for n > 0 {
		step := store.Step{After: o.last}
		for range min(n, 200) {
			step.Entries = append(step.Entries, journal.Entry{Body: &journalv1.Body{
				Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: text}},
			}})
		}
		if _, err := s.Commit(b.Context(), o.claim, step); err != nil {
			b.Fatal(err)
		}
		o.last += int64(len(step.Entries))
		n -= len(step.Entries)
	}
}
