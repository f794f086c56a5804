package flyapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// leaseTTL is short, so that a killed process blocks a machine for seconds; 30 minutes of a killed deploy were a
	// public complaint (flyctl PR#2452, PR#1728, #4313).
	leaseTTL     = 13 * time.Second
	leaseRefresh = 4 * time.Second
	// leaseMargin is how long before the end a lease counts as lost: a write sent now must arrive inside it.
	leaseMargin  = 2 * time.Second
	leaseRelease = 5 * time.Second
)

// Lease is the right to change one machine while WithLease runs. The zero value is no lease.
type Lease struct {
	nonce string
	// Version is the machine's instance id when the lease was given.
	Version string
}

// WithLease takes the machine's lease, runs fn while refreshing it, and always releases it, also when ctx has ended.
//
// The lease is asked for once: when somebody holds it, the error is a *LeaseHeldError at once, and fn does not run. When
// the lease cannot be kept, fn's context ends with a *LeaseLostError as its cause. fn's error is returned as it is.
func (c *Client) WithLease(ctx context.Context, app, id string, fn func(ctx context.Context, lease Lease) error) error {
	lease, until, err := c.acquire(ctx, app, id)
	if err != nil {
		return err
	}
	lctx, cancel := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { c.keep(lctx, cancel, app, id, lease, until) })
	defer func() {
		cancel(nil)
		keeper.Wait() // a refresh after the release would take the lease again
		c.release(ctx, app, id, lease)
	}()
	return fn(lctx, lease)
}

func (c *Client) acquire(ctx context.Context, app, id string) (Lease, time.Time, error) {
	asked := time.Now()
	resp, r, err := c.leaseCall(ctx, app, id, "take the lease of machine", "")
	if err != nil {
		return Lease{}, time.Time{}, leaseRefusal(app, id, err)
	}
	var envelope struct {
		Data struct {
			Nonce   string `json:"nonce"`
			Version string `json:"version"`
		} `json:"data"`
		Nonce   string `json:"nonce"` // the public description shows the inner object alone
		Version string `json:"version"`
	}
	if err := decode(r, resp, &envelope); err != nil {
		return Lease{}, time.Time{}, err
	}
	lease := Lease{nonce: orElse(envelope.Data.Nonce, envelope.Nonce), Version: orElse(envelope.Data.Version, envelope.Version)}
	if lease.nonce == "" {
		return Lease{}, time.Time{}, &Error{Op: r.op, App: app, Machine: id, Text: "the answer has no nonce"}
	}
	return lease, asked.Add(leaseTTL), nil
}

func (c *Client) leaseCall(ctx context.Context, app, id, op, nonce string) (response, request, error) {
	body, err := json.Marshal(map[string]any{"ttl": int(leaseTTL / time.Second), "description": c.agent})
	if err != nil {
		return response{}, request{}, err
	}
	// The public API reads the TTL from the body, flyctl sends it in the query; both say the same.
	r := request{
		op: op, app: app, machine: id, method: http.MethodPost, path: machinePath(app, id, "lease"), nonce: nonce,
		query: url.Values{"ttl": {strconv.Itoa(int(leaseTTL / time.Second))}}, body: body,
	}
	resp, err := c.call(ctx, r)
	return resp, r, err
}

// keep refreshes until ctx ends. A refusal loses the lease at once; silence loses it when its time is nearly over,
// counted from when the last granted request was sent.
func (c *Client) keep(ctx context.Context, lost context.CancelCauseFunc, app, id string, lease Lease, until time.Time) {
	next := leaseRefresh
	for {
		if sleep(ctx, next) != nil {
			return
		}
		asked := time.Now()
		rctx, cancel := context.WithDeadline(ctx, until.Add(-leaseMargin))
		_, _, err := c.leaseCall(rctx, app, id, "refresh the lease of machine", lease.nonce)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			until, next = asked.Add(leaseTTL), leaseRefresh
		case refused(err) || time.Until(until) <= leaseMargin:
			lost(&LeaseLostError{App: app, Machine: id, Err: err})
			return
		default:
			next = time.Second
		}
	}
}

// refused reports an answer that says no, as against no answer or a gateway's.
func refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests
}

func (c *Client) release(ctx context.Context, app, id string, lease Lease) {
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseRelease)
	defer cancel()
	_, err := c.call(rctx, request{
		op: "release the lease of machine", app: app, machine: id, method: http.MethodDelete,
		path: machinePath(app, id, "lease"), nonce: lease.nonce, idempotent: true,
	})
	if err != nil && !IsNotFound(err) { // a destroyed machine has dropped its lease; else it ends by itself within leaseTTL
		c.log.WarnContext(ctx, "lease not released; it ends by itself", "app", app, "machine", id, "seconds", int(leaseTTL/time.Second), "error", err)
	}
}
