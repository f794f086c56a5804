package faults

import (
	"net/http"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// Fly's rate limits. Source: "Working with the Machines API": one request a second per action and machine (or app),
// bursts of 3; Get Machine 5 a second, bursts of 10.
const (
	actionRate  = 1
	actionBurst = 3
	getRate     = 5
	getBurst    = 10
)

// Limits are Fly's rate limits, off until they are switched on. They are safe for concurrent use.
type Limits struct {
	mu      sync.Mutex
	on      bool
	buckets map[string]*rate.Limiter
}

// Set switches the limits on or off; all buckets start full.
func (l *Limits) Set(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on, l.buckets = on, map[string]*rate.Limiter{}
}

// Allow says whether a call may pass.
func (l *Limits) Allow(method, path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on || !strings.HasPrefix(path, "/v1/") {
		return true
	}
	key, get := bucket(method, path)
	b := l.buckets[key]
	if b == nil {
		b = rate.NewLimiter(actionRate, actionBurst)
		if get {
			b = rate.NewLimiter(getRate, getBurst)
		}
		l.buckets[key] = b
	}
	return b.Allow()
}

// bucket names the action and the machine or app that a call is counted for.
func bucket(method, path string) (key string, get bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	if len(parts) >= 4 && parts[0] == "apps" && parts[2] == "machines" {
		action := strings.Join(parts[4:], "/")
		return method + " " + action + " " + parts[3], method == http.MethodGet && action == ""
	}
	if len(parts) >= 2 {
		return method + " " + strings.Join(append([]string{parts[0]}, parts[2:]...), "/") + " " + parts[1], false
	}
	return method + " " + path, false
}
