package engine

import (
	"net/http"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// defaultLease is the TTL of a lease that names none.
// Assumption: Fly's default is not documented.
const defaultLease = 30

// leaseOwner is who holds all leases here: there is one user.
const leaseOwner = "local@flylocal.invalid"

// LeaseView is a lease with the version of its machine.
type LeaseView struct {
	state.Lease
	Version string
}

// held answers the lease that holds now, or nil. Call with the lock held.
func (m *machine) held() *state.Lease {
	if m.Lease != nil && time.Now().Before(m.Lease.ExpiresAt) {
		return m.Lease
	}
	return nil
}

// guard refuses a call whose nonce is not the held lease's.
func (w *World) guard(m *machine, nonce string) error {
	lease := m.held()
	if lease == nil || lease.Nonce == nonce {
		return nil
	}
	r := refuse(http.StatusConflict, "machine ID %s lease currently held by %s, expires at %s", m.ID, lease.Owner, lease.ExpiresAt.Format(time.RFC3339))
	r.Lease = true
	return r
}

func (w *World) newLease(ttl int, description string) *state.Lease {
	return &state.Lease{
		Nonce: newNonce(), Owner: leaseOwner, Description: description,
		ExpiresAt: time.Now().UTC().Add(time.Duration(ttl) * time.Second).Truncate(time.Second).Add(time.Second),
	}
}

func leaseNotFound() *Refusal { return refuse(http.StatusNotFound, "lease not found") }

// Lease answers the lease that holds.
func (w *World) Lease(app, id string) (LeaseView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.machine(app, id)
	if err != nil {
		return LeaseView{}, err
	}
	lease := m.held()
	if lease == nil {
		return LeaseView{}, leaseNotFound()
	}
	return LeaseView{Lease: *lease, Version: m.InstanceID}, nil
}

// AcquireLease takes a lease, or refreshes the one whose nonce is given. A ttl of 0 takes the default.
func (w *World) AcquireLease(app, id, nonce string, ttl int, description string) (LeaseView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.guarded(app, id, nonce)
	if err != nil {
		return LeaseView{}, err
	}
	if ttl < 0 {
		return LeaseView{}, invalid("ttl must be at least 1")
	}
	if ttl == 0 {
		ttl = defaultLease
	}
	fresh := w.newLease(ttl, description)
	if lease := m.held(); lease != nil {
		fresh.Nonce = lease.Nonce
		if description == "" {
			fresh.Description = lease.Description
		}
	} else if nonce != "" {
		// A refresh of a lease that has run out: it is nobody's any more.
		return LeaseView{}, leaseNotFound()
	}
	m.Lease = fresh
	w.save(m)
	return LeaseView{Lease: *fresh, Version: m.InstanceID}, nil
}

// ReleaseLease gives a lease back.
func (w *World) ReleaseLease(app, id, nonce string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.machine(app, id)
	if err != nil {
		return err
	}
	if m.held() == nil {
		return leaseNotFound()
	}
	if err := w.guard(m, nonce); err != nil {
		return err
	}
	m.Lease = nil
	w.save(m)
	return nil
}
