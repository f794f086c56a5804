package flyapi

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// Pace says how fast a client asks.
type Pace int

const (
	// PaceDocumented keeps Fly's published limits per action and id: 1 request a second with a burst of 3, and
	// 5 a second with a burst of 10 for Get Machine (superfly/docs, working-with-machines-api). fly-go does not
	// repeat a 429, and 15 creates at once are refused (flyctl PR#3961), so the client does not run into it: its
	// bursts are one smaller, for requests that arrive closer together than they were sent.
	PaceDocumented Pace = iota
	// PaceOff asks as fast as the caller does: for a local platform without limits.
	PaceOff
)

// maxPacers bounds the memory of a pacer: one entry per action and id that was asked lately.
const maxPacers = 8192

type pacer struct {
	mu  sync.Mutex
	ids map[string]*rate.Limiter // nil: pacing is off
}

func newPacer(p Pace) *pacer {
	if p == PaceOff {
		return &pacer{}
	}
	return &pacer{ids: map[string]*rate.Limiter{}}
}

// wait blocks until the action may be asked for the id, or ctx ends.
func (p *pacer) wait(ctx context.Context, method, path string) error {
	action, id := actionOf(method, path)
	if p.ids == nil || id == "" {
		return nil
	}
	return p.limiter(action, id).Wait(ctx)
}

func (p *pacer) limiter(action, id string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := action + " " + id
	l := p.ids[key]
	if l != nil {
		return l
	}
	if len(p.ids) >= maxPacers {
		for k, v := range p.ids {
			if v.Tokens() >= float64(v.Burst()) { // idle long enough to be as good as new
				delete(p.ids, k)
			}
		}
	}
	if action == "GET machine" {
		l = rate.NewLimiter(5, 9)
	} else {
		l = rate.NewLimiter(1, 2)
	}
	p.ids[key] = l
	return l
}

// actionOf names the action and the machine or app that Fly's limit counts by. An empty id is not limited.
//
//	POST /v1/apps/a/machines            → "POST machines", "a"
//	GET  /v1/apps/a/machines/m          → "GET machine", "m"
//	POST /v1/apps/a/machines/m/metadata/k → "POST metadata", "m"
func actionOf(method, path string) (action, id string) {
	part := strings.Split(strings.Trim(path, "/"), "/")
	if len(part) < 3 || part[0] != "v1" {
		return "", ""
	}
	switch {
	case part[1] == "orgs" && len(part) == 4:
		// Pages of one list are asked one after another; the organization is no machine and no app.
		return "", ""
	case part[1] != "apps":
		return "", ""
	case len(part) == 3:
		return method + " app", part[2]
	case len(part) == 4:
		return method + " " + part[3], part[2]
	case len(part) == 5 && part[3] == "machines":
		if method == http.MethodGet {
			return "GET machine", part[4]
		}
		return method + " machine", part[4]
	case part[3] == "machines":
		return method + " " + part[5], part[4]
	default:
		return method + " " + part[3] + "/*", part[2]
	}
}
