package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/statement"
)

// A claim that is not committed yet counts: without waiting for it, another replica would claim as many again.
func TestTenantCapHoldsAmongClaimsOfOneMoment(t *testing.T) {
	const limit = 3
	db := fresh(t)
	s := db.open(t, store.Options{TTL: time.Hour, TenantCap: limit})
	for range 3 * limit {
		id := store.NewID()
		if _, err := s.CreateSession(t.Context(), tenant, "agent", id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), store.Input{Tenant: tenant, Session: id, Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Register(t.Context(), "first", "test")
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Register(t.Context(), "second", "test")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), db.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := statement.New(tx)
	if err := q.OneClaimAtATime(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := q.ClaimReadyCapped(t.Context(), statement.ClaimReadyCappedParams{Owner: first.ID, Cap: limit, Most: 10})
	if err != nil || len(rows) != limit {
		t.Fatalf("%d claims, error %v", len(rows), err)
	}
	claimed := make(chan []store.Claim, 1)
	go func() {
		claims, err := s.Claim(t.Context(), second, 10)
		if err != nil {
			t.Error(err)
		}
		claimed <- claims
	}()
	eventually(t, "the other claim waits, or is done", func() bool { return waiting(t, db) > 0 || len(claimed) > 0 })
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if claims := <-claimed; len(claims) != 0 {
		t.Errorf("%d sessions run over the cap of %d", len(claims), limit)
	}
}
