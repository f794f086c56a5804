package netdoor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// redialEvery is the pause between two attempts to reach a machine that is up but does not accept yet.
const redialEvery = 20 * time.Millisecond

// rank orders services as Fly's proxy prefers them: running and healthy, running and failing, then cold ones that may
// be woken. The rest are dropped.
func rank(services []Service) []Service {
	class := func(s Service) int {
		switch {
		case s.Cordoned:
			return -1
		case s.Started && !s.Failing:
			return 0
		case s.Started:
			return 1
		case s.Wakeable && s.Autostart:
			return 2
		}
		return -1
	}
	usable := slices.DeleteFunc(slices.Clone(services), func(s Service) bool { return class(s) < 0 })
	slices.SortStableFunc(usable, func(a, b Service) int { return cmp.Compare(class(a), class(b)) })
	return usable
}

// connect resolves address for a caller on network and connects to it.
func (d *Door) connect(ctx context.Context, network, host string, port int) (net.Conn, error) {
	to, err := parseName(host)
	if err != nil {
		return nil, err
	}
	if to.flycast {
		return d.flycast(ctx, network, to.app, port)
	}
	return d.internal(ctx, network, to, port)
}

func (d *Door) internal(ctx context.Context, network string, to target, port int) (net.Conn, error) {
	ids, err := d.platform.Machines(ctx, network, to.app)
	if err != nil {
		return nil, err
	}
	if to.machine != "" {
		if !slices.Contains(ids, to.machine) {
			return nil, fmt.Errorf("%w: machine %s of %s is not started", ErrNoName, to.machine, to.app)
		}
		return d.dial(ctx, to.app, to.machine, port)
	}
	// A name with several addresses: a client takes any and tries the next when one refuses.
	err = fmt.Errorf("%w: %s has no started machine", ErrNoName, to.app)
	for _, i := range rand.Perm(len(ids)) { //nolint:gosec // spreads load, keeps no secret
		var conn net.Conn
		if conn, err = d.dial(ctx, to.app, ids[i], port); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dial is one attempt, without patience: a direct address has no proxy that would wait.
func (d *Door) dial(ctx context.Context, app, machine string, port int) (net.Conn, error) {
	conn, err := d.platform.Dial(ctx, app, machine, port)
	if err != nil {
		return nil, fmt.Errorf("%w: %s of %s, port %d: %w", ErrNoMachine, machine, app, port, err)
	}
	return conn, nil
}

// flycast takes the best machine, wakes it when it is cold and waits until it accepts. The list is read again before
// each attempt: a machine may be cordoned, stopped or replaced while the connection waits.
func (d *Door) flycast(ctx context.Context, network, app string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.acceptTimeout)
	defer cancel()
	for {
		services, err := d.platform.Services(ctx, network, app, port)
		if err != nil {
			return nil, err
		}
		usable := rank(services)
		if len(usable) == 0 {
			return nil, fmt.Errorf("%w: %s, port %d: %s", ErrNoMachine, app, port, whyNone(services))
		}
		conn, err := d.attempt(ctx, app, usable)
		if err == nil || errors.Is(err, ErrNoMachine) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s, port %d: %w", ErrNotListening, app, port, err)
		case <-time.After(redialEvery):
		}
	}
}

// attempt tries each machine once, best first. ErrNoMachine means that no later attempt would do better: none is
// up and none can be started.
func (d *Door) attempt(ctx context.Context, app string, usable []Service) (net.Conn, error) {
	var failures []error
	up := false
	for _, s := range usable {
		if !s.Started {
			if up {
				break // A machine that is up but slow is waited for; no other is started beside it.
			}
			if err := d.platform.Wake(ctx, app, s.Machine); err != nil {
				failures = append(failures, fmt.Errorf("start %s: %w", s.Machine, err))
				continue
			}
		}
		up = true
		conn, err := d.platform.Dial(ctx, app, s.Machine, s.InternalPort)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, fmt.Errorf("reach %s: %w", s.Machine, err))
	}
	err := errors.Join(failures...)
	if !up && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMachine, err)
	}
	return nil, err
}

// whyNone tells a person why no machine may take the connection.
func whyNone(services []Service) string {
	if len(services) == 0 {
		return "no machine has a service on it"
	}
	for _, s := range services {
		switch {
		case s.Cordoned:
			return "machine " + s.Machine + " is cordoned"
		case s.Wakeable && !s.Autostart:
			return "machine " + s.Machine + " is cold and its service has autostart = false"
		}
	}
	return "machine " + services[0].Machine + " is neither started nor stopped"
}
