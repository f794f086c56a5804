package flyapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// GetMachine reads one machine. A machine that Fly does not know is an error for which IsNotFound holds; one that was
// destroyed may still be answered, see Machine.Gone.
func (c *Client) GetMachine(ctx context.Context, app, id string) (*Machine, error) {
	r := request{op: "read machine", app: app, machine: id, method: http.MethodGet, path: machinePath(app, id), idempotent: true}
	return c.machine(ctx, r)
}

// ListMachines reads the machines of one app, destroyed ones left out.
func (c *Client) ListMachines(ctx context.Context, app string) ([]*Machine, error) {
	r := request{op: "list machines", app: app, method: http.MethodGet, path: appPath(app, "machines"), idempotent: true}
	resp, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	var rows []json.RawMessage
	if err := decode(r, resp, &rows); err != nil {
		return nil, err
	}
	out := make([]*Machine, 0, len(rows))
	for _, row := range rows {
		m, err := parseMachine(row)
		if err != nil {
			return nil, &Error{Op: r.op, App: app, Text: "read the answer", Err: err}
		}
		out = append(out, m)
	}
	return out, nil
}

// UpdateRequest is a machine's next version. Fly replaces the whole config by Config, so Config must be the current one
// with the wanted edits (see package merge).
type UpdateRequest struct {
	// Config goes out byte for byte.
	Config json.RawMessage
	// CurrentVersion is the instance id that Config was read from; Fly answers 409 when it is no longer the machine's.
	CurrentVersion string
	// SkipLaunch leaves a machine that is not started so; without it an update starts it.
	SkipLaunch bool
	// SkipServiceRegistration keeps a cordoned machine out of routing.
	SkipServiceRegistration bool
	// Lease is the caller's lease on the machine, zero when it has none.
	Lease Lease
}

// UpdateMachine writes a machine's next version and returns Fly's answer, whose InstanceID is the new version's. It
// does not wait: the state in the answer is a passing one. A 409 for a concurrent update is repeated with jitter; with
// CurrentVersion set the repeat cannot overwrite what the other one wrote. After a gateway error the update may or
// may not have happened, which Unsure tells.
func (c *Client) UpdateMachine(ctx context.Context, app, id string, u UpdateRequest) (*Machine, error) {
	body, err := updateBody(u)
	if err != nil {
		return nil, fmt.Errorf("update machine %s of app %s: %w", id, app, err)
	}
	r := request{
		op: "update machine", app: app, machine: id, method: http.MethodPost, path: machinePath(app, id),
		body: body, nonce: u.Lease.nonce, concurrent: true, waitsFor: callTimeout,
	}
	m, err := c.machine(ctx, r)
	// Also after a failure: whoever keeps a copy of the machine must ask again.
	c.wrote(Write{Kind: WroteMachine, App: app, ID: id})
	return m, err
}

// Unsure reports that a write may have happened although its call failed: read before writing again.
func Unsure(err error) bool { return unsure(err) }

// updateBody is put together by hand: encoding/json would compact and re-escape the config.
func updateBody(u UpdateRequest) ([]byte, error) {
	if !json.Valid(u.Config) {
		return nil, errors.New("the config to send is not JSON")
	}
	var b bytes.Buffer
	b.WriteString(`{"config":`)
	b.Write(u.Config)
	if u.CurrentVersion != "" {
		b.WriteString(`,"current_version":`)
		b.Write(quote(u.CurrentVersion))
	}
	if u.SkipLaunch {
		b.WriteString(`,"skip_launch":true`)
	}
	if u.SkipServiceRegistration {
		b.WriteString(`,"skip_service_registration":true`)
	}
	b.WriteString(`}`)
	return b.Bytes(), nil
}

// StartMachine asks a stopped or suspended machine to start; it does not wait.
func (c *Client) StartMachine(ctx context.Context, app, id string, lease Lease) error {
	return c.verb(ctx, "start machine", "start", app, id, lease, nil)
}

// StopMachine asks a machine to stop; it does not wait. Of a suspended machine it drops the memory.
func (c *Client) StopMachine(ctx context.Context, app, id string, lease Lease) error {
	return c.verb(ctx, "stop machine", "stop", app, id, lease, []byte("{}"))
}

// SuspendMachine asks a started machine to suspend; it does not wait.
func (c *Client) SuspendMachine(ctx context.Context, app, id string, lease Lease) error {
	return c.verb(ctx, "suspend machine", "suspend", app, id, lease, nil)
}

// CordonMachine takes a machine out of routing.
func (c *Client) CordonMachine(ctx context.Context, app, id string, lease Lease) error {
	return c.verb(ctx, "cordon machine", "cordon", app, id, lease, nil)
}

// UncordonMachine puts a machine back into routing.
func (c *Client) UncordonMachine(ctx context.Context, app, id string, lease Lease) error {
	return c.verb(ctx, "uncordon machine", "uncordon", app, id, lease, nil)
}

// DestroyMachine removes a machine; force does so in any state. It does not wait (see WaitMachine), and the volume stays
// bound for a while after it. A machine that is gone already is no error.
func (c *Client) DestroyMachine(ctx context.Context, app, id string, force bool, lease Lease) error {
	r := request{
		op: "destroy machine", app: app, machine: id, method: http.MethodDelete, path: machinePath(app, id),
		nonce: lease.nonce, idempotent: true,
	}
	if force {
		// The public API names it force, fly-go sends kill.
		r.query = url.Values{"force": {"true"}, "kill": {"true"}}
	}
	_, err := c.call(ctx, r)
	c.wrote(Write{Kind: WroteMachine, App: app, ID: id})
	if IsNotFound(err) {
		return nil // the app may have been deleted first (fly-apps/terraform-provider-fly#163)
	}
	return leaseRefusal(app, id, err)
}

func (c *Client) verb(ctx context.Context, op, verb, app, id string, lease Lease, body []byte) error {
	_, err := c.call(ctx, request{
		op: op, app: app, machine: id, method: http.MethodPost, path: machinePath(app, id, verb),
		nonce: lease.nonce, idempotent: true, concurrent: true, body: body,
	})
	c.wrote(Write{Kind: WroteMachine, App: app, ID: id})
	return leaseRefusal(app, id, err)
}

func (c *Client) machine(ctx context.Context, r request) (*Machine, error) {
	resp, err := c.call(ctx, r)
	if err != nil {
		return nil, leaseRefusal(r.app, r.machine, err)
	}
	m, err := parseMachine(resp.body)
	if err != nil {
		return nil, &Error{Op: r.op, App: r.app, Machine: r.machine, Text: "read the answer", Err: err, RequestID: resp.header.Get(headerRequestID)}
	}
	return m, nil
}

// leaseRefusal turns a 409 that names a lease into a LeaseHeldError.
func leaseRefusal(app, id string, err error) error {
	var e *Error
	if errors.As(err, &e) && isLeaseRefusal(e) {
		return leaseHeld(app, id, e)
	}
	return err
}

// WaitRequest says what to wait for.
type WaitRequest struct {
	// States that end the wait; empty means StateSettled.
	States []string
	// InstanceID is the version to wait for, "" for whichever is there (flyctl#1751: without it a stop could be waited
	// for on the wrong version).
	InstanceID string
	// Budget is how long to wait in all; 0 means 5 minutes.
	Budget time.Duration
}

// waitSlice is the longest wait that Fly takes: more is a 400 (omadia#706, spawn#1619).
const waitSlice = 60 * time.Second

// WaitMachine waits until the machine is in one of the states, asking again in slices of at most 60 s until the budget is
// over; then the error is the last 408, for which IsTimeout holds. A machine that Fly no longer knows ends a wait for
// StateDestroyed with success.
func (c *Client) WaitMachine(ctx context.Context, app, id string, w WaitRequest) error {
	if len(w.States) == 0 {
		w.States = []string{StateSettled}
	}
	if w.Budget <= 0 {
		w.Budget = 5 * time.Minute
	}
	deadline := time.Now().Add(w.Budget)
	for {
		slice := min(waitSlice, max(time.Second, time.Until(deadline).Round(time.Second)))
		q := url.Values{"state": w.States, "timeout": {strconv.Itoa(int(slice / time.Second))}}
		if w.InstanceID != "" {
			q.Set("version", w.InstanceID)
			q.Set("instance_id", w.InstanceID)
		}
		_, err := c.call(ctx, request{
			op: "wait for machine", app: app, machine: id, method: http.MethodGet, path: machinePath(app, id, "wait"),
			query: q, idempotent: true, waitsFor: slice,
		})
		switch {
		case err == nil:
			return nil
		case IsNotFound(err) && contains(w.States, StateDestroyed):
			return nil
		case !IsTimeout(err) || !time.Now().Before(deadline):
			return err
		}
	}
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if s == want {
			return true
		}
	}
	return false
}

// SetMetadata writes one metadata key straight through: no new version, no restart.
func (c *Client) SetMetadata(ctx context.Context, app, id, key, value string) error {
	body, err := json.Marshal(map[string]string{"value": value})
	if err != nil {
		return fmt.Errorf("set metadata %s of machine %s: %w", key, id, err)
	}
	_, err = c.call(ctx, request{
		op: "set metadata " + key + " of machine", app: app, machine: id, method: http.MethodPost,
		path: machinePath(app, id, "metadata", key), body: body, idempotent: true, concurrent: true,
	})
	c.wrote(Write{Kind: WroteMachine, App: app, ID: id})
	return err
}

// DeleteMetadata removes one metadata key straight through; an absent key is no error.
func (c *Client) DeleteMetadata(ctx context.Context, app, id, key string) error {
	_, err := c.call(ctx, request{
		op: "delete metadata " + key + " of machine", app: app, machine: id, method: http.MethodDelete,
		path: machinePath(app, id, "metadata", key), idempotent: true, concurrent: true,
	})
	c.wrote(Write{Kind: WroteMachine, App: app, ID: id})
	if IsNotFound(err) {
		return nil
	}
	return err
}

// ExecResult is what a command on a machine said. An exit code is a result, not an error.
type ExecResult struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// ExecMachine runs a command inside a started machine, as root, and waits for it; timeout is rounded up to whole
// seconds. It is never repeated after a gateway error, since a command may not bear it.
//
// Assumption: the public API takes `command` as a list (openapi); fly-go sends `cmd`, one string that is split
// shell-like.
func (c *Client) ExecMachine(ctx context.Context, app, id string, command []string, timeout time.Duration) (ExecResult, error) {
	seconds := max(1, int((timeout+time.Second-1)/time.Second))
	body, err := json.Marshal(struct {
		Command []string `json:"command"`
		Timeout int      `json:"timeout"`
	}{command, seconds})
	if err != nil {
		return ExecResult{}, fmt.Errorf("exec on machine %s: %w", id, err)
	}
	r := request{
		op: "exec on machine", app: app, machine: id, method: http.MethodPost, path: machinePath(app, id, "exec"),
		body: body, waitsFor: time.Duration(seconds) * time.Second,
	}
	resp, err := c.call(ctx, r)
	if err != nil {
		return ExecResult{}, err
	}
	var out ExecResult
	return out, decode(r, resp, &out)
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return []byte(`""`)
	}
	return b
}
