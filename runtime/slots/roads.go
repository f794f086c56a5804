package slots

import (
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// roads are the connections to machines, a pair for each, shared by its sessions and closed when none has used them for a
// while.
type roads struct {
	dial   transport.DialFunc
	linger time.Duration

	mu     sync.Mutex
	byKey  map[string]*pair
	closed bool
}

// pair is one machine's: what is prompt, and what is bulk.
type pair struct {
	control, bulk *client.Road
	users         int
	// idle closes the pair; nil while it is used.
	idle *time.Timer
}

func newRoads(dial transport.DialFunc, linger time.Duration) *roads {
	return &roads{dial: dial, linger: linger, byKey: map[string]*pair{}}
}

// take gives the pair of a machine. Call done, once.
func (r *roads) take(machine, address string) (p *pair, done func()) {
	key := machine + " " + address
	r.mu.Lock()
	defer r.mu.Unlock()
	p = r.byKey[key]
	if p == nil {
		p = &pair{control: client.NewRoad(r.dial), bulk: client.NewRoad(r.dial)}
		r.byKey[key] = p
	}
	p.users++
	if p.idle != nil {
		p.idle.Stop()
		p.idle = nil
	}
	return p, sync.OnceFunc(func() { r.release(key, p) })
}

func (r *roads) release(key string, p *pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.users--
	switch {
	case p.users > 0:
	case r.closed:
		p.close()
	default:
		p.idle = time.AfterFunc(r.linger, func() { r.drop(key, p) })
	}
}

// drop closes a pair that nobody has taken meanwhile.
func (r *roads) drop(key string, p *pair) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.users == 0 && r.byKey[key] == p {
		delete(r.byKey, key)
		p.close()
	}
}

// forget closes the connections of a machine that went to rest, unless they are used.
func (r *roads) forget(machine, address string) {
	key := machine + " " + address
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.byKey[key]; p != nil && p.users == 0 {
		p.idle.Stop()
		delete(r.byKey, key)
		p.close()
	}
}

func (r *roads) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, p := range r.byKey {
		if p.idle != nil {
			p.idle.Stop()
		}
		p.close()
	}
	clear(r.byKey)
}

func (p *pair) close() {
	p.control.Close()
	p.bulk.Close()
}
