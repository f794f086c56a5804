package flyapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const (
	take = "POST /v1/apps/app/machines/m1/lease"
	drop = "DELETE /v1/apps/app/machines/m1/lease"
)

func granted() answer {
	return answer{status: 201, body: `{"status":"success","data":{"nonce":"n-1","expires_at":1,"owner":"me","version":"01A"}}`}
}

// flyctl PR#2452, PR#1728, #4313: leases that expired in a long deploy, and 30 minutes of a killed one.
func TestLeaseIsRefreshedWhileHeldAndReleasedOnce(t *testing.T) {
	s := &script{answer: func(call, int) answer { return granted() }}
	synctest.Test(t, func(t *testing.T) {
		err := client(t, s).WithLease(t.Context(), "app", "m1", func(ctx context.Context, l flyapi.Lease) error {
			time.Sleep(30 * time.Second) // the bubble's clock
			if l.Version != "01A" {
				t.Errorf("version %q", l.Version)
			}
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := s.count(take); n != 8 || s.count(drop) != 1 {
			t.Errorf("%d takes and refreshes, %d releases", n, s.count(drop))
		}
		first, last := s.calls[0], s.last(t, take)
		if first.header.Get("fly-machine-lease-nonce") != "" || !strings.Contains(first.body, `"ttl":13`) {
			t.Errorf("first request %+v", first)
		}
		if last.header.Get("fly-machine-lease-nonce") != "n-1" || s.last(t, drop).header.Get("fly-machine-lease-nonce") != "n-1" {
			t.Error("the nonce was not sent")
		}
		time.Sleep(time.Minute)
		if n := s.count(take); n != 8 {
			t.Error("refreshed after the release")
		}
	})
}

func TestForeignLeaseIsNamedAtOnce(t *testing.T) {
	for text, until := range map[string]string{
		"machine ID m1 lease currently held by deploy@ci.example, expires at 2026-03-01T10:00:00Z":              "2026-03-01T10:00:00Z",
		"machine ID m1 lease currently held by deploy@ci.example, expires at 2026-03-01 10:00:00 +0000 UTC":     "2026-03-01T10:00:00Z",
		"machine ID m1 lease currently held by deploy@ci.example, expires at some day in a spelling of its own": "",
	} {
		s := &script{answer: func(call, int) answer {
			return answer{status: 409, body: `{"status":"error","message":"` + text + `","code":"invalid"}`}
		}}
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := client(t, s).WithLease(t.Context(), "app", "m1", func(context.Context, flyapi.Lease) error {
				t.Error("ran without the lease")
				return nil
			})
			var held *flyapi.LeaseHeldError
			if !errors.As(err, &held) || held.Holder != "deploy@ci.example" || !strings.Contains(err.Error(), until) || held.Expires.IsZero() != (until == "") {
				t.Errorf("error %v", err)
			}
			if len(s.asked()) != 1 || time.Since(start) != 0 {
				t.Errorf("asked %v; the holder must be told at once", s.asked())
			}
		})
	}
}

func TestLostLeaseEndsTheWorkWithItsCause(t *testing.T) {
	for name, refusal := range map[string]answer{
		"taken over": {status: 409, body: `{"status":"error","message":"machine ID m1 lease currently held by other, expires at 2026-03-01T10:00:00Z"}`},
		"gone":       {status: 404, body: `{"error":"lease not found"}`},
		"silence":    {err: errors.New("connection reset by peer")},
		"gateway":    {status: 502},
	} {
		s := &script{}
		s.answer = func(c call, n int) answer {
			if c.key() == take && n > 1 {
				return refusal
			}
			return granted()
		}
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			err := client(t, s).WithLease(t.Context(), "app", "m1", func(ctx context.Context, _ flyapi.Lease) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			var lost *flyapi.LeaseLostError
			if !errors.As(err, &lost) || lost.Machine != "m1" {
				t.Errorf("%s: error %v", name, err)
			}
			limit := 13 * time.Second // the lease is over
			if refusal.status/100 == 4 {
				limit = 5 * time.Second // told so at the first refresh
			}
			if time.Since(start) >= limit {
				t.Errorf("%s: noticed after %s", name, time.Since(start))
			}
			if s.count(drop) == 0 {
				t.Errorf("%s: not released", name)
			}
		})
	}
}

// One missed refresh is no loss: the lease is good for 13 s.
func TestLeaseSurvivesAMissedRefresh(t *testing.T) {
	s := &script{}
	s.answer = func(c call, n int) answer {
		if c.key() == take && n == 2 {
			return answer{status: 503}
		}
		return granted()
	}
	synctest.Test(t, func(t *testing.T) {
		err := client(t, s).WithLease(t.Context(), "app", "m1", func(ctx context.Context, _ flyapi.Lease) error {
			time.Sleep(20 * time.Second)
			return context.Cause(ctx)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestLeaseIsReleasedAfterCancel(t *testing.T) {
	s := &script{answer: func(call, int) answer { return granted() }}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := client(t, s).WithLease(ctx, "app", "m1", func(ctx context.Context, _ flyapi.Lease) error {
			cancel()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || s.count(drop) != 1 {
			t.Errorf("error %v, %d releases", err, s.count(drop))
		}
	})
}

func TestReleaseDoesNotHangOnADeadServer(t *testing.T) {
	s := &script{}
	s.answer = func(c call, _ int) answer {
		if c.key() == drop {
			return answer{status: 502}
		}
		return granted()
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := client(t, s).WithLease(t.Context(), "app", "m1", func(context.Context, flyapi.Lease) error { return nil }); err != nil {
			t.Error(err)
		}
		if time.Since(start) > 5*time.Second {
			t.Errorf("hung for %s", time.Since(start))
		}
	})
}

// A refresh that arrives after the release would take the lease again, for nobody.
func TestReleaseComesAfterTheLastRefresh(t *testing.T) {
	refreshed := false
	s := &script{}
	s.answer = func(c call, n int) answer {
		if c.key() == take && n == 2 {
			time.Sleep(time.Second) // a slow server, by the bubble's clock
			refreshed = true
		}
		if c.key() == drop && !refreshed {
			t.Error("released while a refresh was under way")
		}
		return granted()
	}
	synctest.Test(t, func(t *testing.T) {
		err := client(t, s).WithLease(t.Context(), "app", "m1", func(context.Context, flyapi.Lease) error {
			time.Sleep(4500 * time.Millisecond)
			return nil
		})
		if err != nil || s.count(drop) != 1 {
			t.Errorf("error %v, %d releases", err, s.count(drop))
		}
	})
}
