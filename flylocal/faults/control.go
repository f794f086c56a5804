package faults

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
)

// Control is every disturbance in one place: for tests in the same process, and behind /_flylocal/ for others. It is
// safe for concurrent use.
type Control struct {
	world    *engine.World
	stateDir string
	settle   time.Duration
	unbind   time.Duration
	rules    Rules
	requests Requests
	limits   Limits
}

// NewControl makes a control over a world; settle and unbind are the delays to which Clear goes back.
func NewControl(world *engine.World, stateDir string, settle, unbind time.Duration) *Control {
	return &Control{world: world, stateDir: stateDir, settle: settle, unbind: unbind}
}

// Wrap puts the log, the rules and the rate limits before a handler.
func (c *Control) Wrap(next http.Handler) http.Handler {
	limited := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.limits.Allow(r.Method, r.URL.Path) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":"rate limit exceeded"}`))
			return
		}
		next.ServeHTTP(w, r)
	})
	return Middleware(&c.rules, &c.requests, limited)
}

// Answer makes the next calls that match be answered by the rule.
func (c *Control) Answer(rule Rule) error { return c.rules.Add(rule) }

// Requests lists the calls with a number above since, in the order in which they came.
func (c *Control) Requests(since int) []Request { return c.requests.All(since) }

// ClearRequests forgets the calls so far.
func (c *Control) ClearRequests() { c.requests.Clear() }

// SlowBoot makes boots take d longer; target is a machine's id, an app's name, or "*". Zero ends it.
func (c *Control) SlowBoot(target string, d time.Duration) {
	c.world.Disturb(func(f *engine.Faults) {
		boot := map[string]time.Duration{target: d}
		for key, other := range f.Boot {
			if key != target {
				boot[key] = other
			}
		}
		f.Boot = boot
	})
}

// Host makes a machine's host "unreachable" or "unknown", or "ok" again.
func (c *Control) Host(machine, status string) error { return c.world.SetHostStatus(machine, status) }

// FailPull makes pulls fail whose reference holds the text: a digest, or part of a reference.
func (c *Control) FailPull(text, words string) {
	if words == "" {
		words = "manifest unknown"
	}
	c.world.Disturb(func(f *engine.Faults) {
		pull := map[string]string{text: words}
		for key, other := range f.Pull {
			pull[key] = other
		}
		f.Pull = pull
	})
}

// Quota bounds how many machines and volumes the organization may have; a negative number is no bound.
func (c *Control) Quota(machines, volumes int) {
	bound := func(n int) *int {
		if n < 0 {
			return nil
		}
		return &n
	}
	c.world.Disturb(func(f *engine.Faults) { f.MachineQuota, f.VolumeQuota = bound(machines), bound(volumes) })
}

// NoCapacity makes the given regions full.
func (c *Control) NoCapacity(regions ...string) {
	c.world.Disturb(func(f *engine.Faults) { f.NoCapacity = regions })
}

// Delays sets how long passing states last, and how long a volume stays bound after its machine is gone.
func (c *Control) Delays(settle, unbind time.Duration) {
	c.world.Disturb(func(f *engine.Faults) { f.SettleDelay, f.UnbindDelay = &settle, &unbind })
}

// RateLimits switches Fly's rate limits on or off.
func (c *Control) RateLimits(on bool) { c.limits.Set(on) }

// ForeignApp makes a name belong to an organization that the token cannot see, or frees it.
func (c *Control) ForeignApp(name string, held bool) { c.world.SetForeignApp(name, held) }

// ScriptExec sets what commands answer on machines of an image, with the runner "none".
func (c *Control) ScriptExec(digest string, answers ...none.Answer) error {
	return none.Script(c.stateDir, digest, answers...)
}

// Clear ends all disturbances. Scripts, foreign apps and the log stay.
func (c *Control) Clear() {
	c.rules.Clear()
	c.limits.Set(false)
	c.world.Disturb(func(f *engine.Faults) { *f = engine.Faults{SettleDelay: &c.settle, UnbindDelay: &c.unbind} })
	c.world.ResetHosts()
}

// maxControlBody bounds a body of the private paths.
const maxControlBody = 1 << 20

// Handler serves /_flylocal/. Bodies and answers are JSON; every POST answers 204.
//
//	GET    /_flylocal/requests?since=N     the log; DELETE forgets it
//	POST   /_flylocal/faults/answer        a Rule
//	POST   /_flylocal/faults/boot          {"target": id, app or "*", "delay_ms": n}
//	POST   /_flylocal/faults/host          {"machine": id, "host_status": "unreachable"}
//	POST   /_flylocal/faults/pull          {"match": digest, "error": words}
//	POST   /_flylocal/faults/quota         {"machines": n, "volumes": n}, -1 for none
//	POST   /_flylocal/faults/capacity      {"full_regions": ["ams"]}
//	POST   /_flylocal/faults/delays        {"settle_ms": n, "unbind_ms": n}
//	POST   /_flylocal/faults/rate_limits   {"on": true}
//	POST   /_flylocal/faults/foreign_app   {"name": n, "held": true}
//	POST   /_flylocal/faults/exec          {"digest": d, "answers": [...]}
//	DELETE /_flylocal/faults               ends all of these
func (c *Control) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_flylocal/requests", func(w http.ResponseWriter, r *http.Request) {
		since, err := strconv.Atoi(r.URL.Query().Get("since"))
		if err != nil {
			since = 0
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.Requests(since)) // The client has gone; nobody is left to tell.
	})
	mux.HandleFunc("DELETE /_flylocal/requests", func(w http.ResponseWriter, _ *http.Request) {
		c.ClearRequests()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /_flylocal/faults", func(w http.ResponseWriter, _ *http.Request) {
		c.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /_flylocal/faults/{kind}", func(w http.ResponseWriter, r *http.Request) {
		if err := c.apply(r.PathValue("kind"), json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// wish is the union of the bodies that the private paths take.
type wish struct {
	Rule
	Target   string        `json:"target"`
	Machine  string        `json:"machine"`
	State    string        `json:"host_status"`
	Match    string        `json:"match"`
	Error    string        `json:"error"`
	Machines *int          `json:"machines"`
	Volumes  *int          `json:"volumes"`
	Full     []string      `json:"full_regions"`
	SettleMS *int          `json:"settle_ms"`
	UnbindMS *int          `json:"unbind_ms"`
	On       bool          `json:"on"`
	Name     string        `json:"name"`
	Held     bool          `json:"held"`
	Digest   string        `json:"digest"`
	Answers  []none.Answer `json:"answers"`
}

func (c *Control) apply(kind string, body *json.Decoder) error {
	var in wish
	body.DisallowUnknownFields()
	if err := body.Decode(&in); err != nil {
		return err
	}
	switch kind {
	case "answer":
		return c.Answer(in.Rule)
	case "boot":
		c.SlowBoot(in.Target, ms(in.DelayMS))
	case "host":
		return c.Host(in.Machine, in.State)
	case "pull":
		c.FailPull(in.Match, in.Error)
	case "quota":
		c.Quota(orNone(in.Machines), orNone(in.Volumes))
	case "capacity":
		c.NoCapacity(in.Full...)
	case "delays":
		settle, unbind := c.settle, c.unbind
		if in.SettleMS != nil {
			settle = ms(*in.SettleMS)
		}
		if in.UnbindMS != nil {
			unbind = ms(*in.UnbindMS)
		}
		c.Delays(settle, unbind)
	case "rate_limits":
		c.RateLimits(in.On)
	case "foreign_app":
		c.ForeignApp(in.Name, in.Held)
	case "exec":
		return c.ScriptExec(in.Digest, in.Answers...)
	default:
		return errors.New("no such fault; the kinds are answer, boot, host, pull, quota, capacity, delays, rate_limits, foreign_app, exec")
	}
	return nil
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func orNone(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}
