package gateway

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates bound what one tenant may ask of one replica. Zero fields have the defaults.
type Rates struct {
	// PerSecond and Burst bound calls. 50, 100.
	PerSecond float64
	Burst     int
	// Streams bounds event streams that are open at the same time. 200.
	Streams int
	// AllStreams bounds those of all tenants. 5000.
	AllStreams int
}

func (r Rates) withDefaults() Rates {
	if r.PerSecond <= 0 {
		r.PerSecond = 50
	}
	if r.Burst <= 0 {
		r.Burst = 100
	}
	if r.Streams <= 0 {
		r.Streams = 200
	}
	if r.AllStreams <= 0 {
		r.AllStreams = 5000
	}
	return r
}

// sweepAt is the number of tenants at which those that asked nothing lately are forgotten.
const sweepAt = 10000

// limiter keeps a bucket a tenant. It is of one replica: nothing is coordinated outside the database, and an
// answer must not wait for it.
type limiter struct {
	rates Rates

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	streams map[string]int
	open    int
}

func newLimiter(rates Rates) *limiter {
	return &limiter{rates: rates.withDefaults(), buckets: map[string]*rate.Limiter{}, streams: map[string]int{}}
}

// call takes one call from a tenant's bucket, or says how long until there is one.
func (l *limiter) call(tenant string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[tenant]
	if b == nil {
		if len(l.buckets) >= sweepAt {
			l.sweep(now)
		}
		b = rate.NewLimiter(rate.Limit(l.rates.PerSecond), l.rates.Burst)
		l.buckets[tenant] = b
	}
	r := b.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// sweep forgets full buckets: a new one is full too.
func (l *limiter) sweep(now time.Time) {
	for tenant, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.rates.Burst) {
			delete(l.buckets, tenant)
		}
	}
}

// stream takes one of a tenant's streams; release gives it back.
func (l *limiter) stream(tenant string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams[tenant] >= l.rates.Streams || l.open >= l.rates.AllStreams {
		return nil, false
	}
	l.streams[tenant]++
	l.open++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.streams[tenant]--; l.streams[tenant] == 0 {
			delete(l.streams, tenant)
		}
	}, true
}
