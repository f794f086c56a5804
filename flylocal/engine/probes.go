package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
)

// Check statuses as on Fly.
const (
	passing  = "passing"
	warning  = "warning"
	critical = "critical"
)

// check is a health check with its last result.
type check struct {
	CheckView
	spec machineconf.NamedCheck
}

// startProbes begins to run a started machine's checks. Each starts as warning, as nobody knows yet. Call with the lock
// held.
func (w *World) startProbes(m *machine) {
	m.stopProbes()
	specs := m.conf().AllChecks()
	m.checks = nil
	if len(specs) == 0 || m.inst == nil {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	m.probes = cancel
	for _, spec := range specs {
		c := &check{spec: spec, CheckView: CheckView{Name: spec.Name, Status: warning, Output: "the check has not run yet", UpdatedAt: w.now()}}
		m.checks = append(m.checks, c)
		inst := m.inst
		w.wg.Go(func() { w.probe(ctx, m, c, inst) })
	}
}

// stopProbes ends the checks; what is shown of a machine that is down is critical. Call with the lock held.
func (m *machine) stopProbes() {
	if m.probes == nil {
		return
	}
	m.probes()
	m.probes = nil
	for _, c := range m.checks {
		c.Status, c.Output, c.UpdatedAt = critical, "the machine is not started", time.Now().UTC()
	}
}

// probe runs one check until ctx ends: at first often, so that a boot is seen as soon as it is done, and in its own
// interval once it has passed. A failure inside the grace period leaves a check that never passed as it is.
func (w *World) probe(ctx context.Context, m *machine, c *check, inst runner.Instance) {
	started, passed := time.Now(), false
	wait := time.Duration(0)
	for pause(ctx, wait) {
		err := runCheck(ctx, c.spec, inst)
		interval := time.Duration(c.spec.Interval)
		inGrace := !passed && time.Since(started) < time.Duration(c.spec.GracePeriod)
		w.mu.Lock()
		if ctx.Err() != nil {
			// The machine went down meanwhile; what is shown since must stand.
			w.mu.Unlock()
			return
		}
		switch {
		case err == nil:
			passed = true
			c.Status, c.Output = passing, "ok"
			wait = interval
		case inGrace:
			c.Output = err.Error()
			wait = min(interval, firstInterval)
		default:
			c.Status, c.Output = critical, err.Error()
			wait = interval
			if !passed {
				wait = min(interval, firstInterval)
			}
		}
		c.UpdatedAt = w.now()
		close(m.changed)
		m.changed = make(chan struct{})
		w.mu.Unlock()
	}
}

// firstInterval is the pace until a check has passed once.
const firstInterval = 200 * time.Millisecond

func runCheck(ctx context.Context, spec machineconf.NamedCheck, inst runner.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(spec.Timeout))
	defer cancel()
	conn, err := inst.Dial(ctx, spec.Port)
	if errors.Is(err, runner.ErrNoProcess) {
		return nil // Nothing runs; the clock alone decides, and its time has come.
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if spec.Type == "tcp" {
		return nil
	}
	return httpCheck(ctx, spec, conn)
}

// maxCheckBody bounds what is read of a check's answer.
const maxCheckBody = 4 << 10

func httpCheck(ctx context.Context, spec machineconf.NamedCheck, conn net.Conn) error {
	scheme := "http"
	if strings.EqualFold(spec.Protocol, "https") {
		return errors.New("https checks need a certificate, and local machines have none; use protocol http")
	}
	target := scheme + "://" + net.JoinHostPort("localhost", strconv.Itoa(spec.Port)) + spec.Path
	req, err := http.NewRequestWithContext(ctx, spec.Method, target, nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "Consul Health Check")
	for _, h := range spec.Headers {
		for _, value := range h.Values {
			if strings.EqualFold(h.Name, "host") {
				req.Host = value
				continue
			}
			req.Header.Add(h.Name, value)
		}
	}
	used := false
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		if used {
			return nil, errors.New("the connection was lost")
		}
		used = true
		return conn, nil
	}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCheckBody))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("HTTP %s %s: %s: %s", spec.Method, spec.Path, resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
