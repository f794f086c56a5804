//go:build linux

package replicatest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/remote"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// machineSettings say where a control server is.
type machineSettings struct {
	App, ID, Address, Dir, Key string
	// Log is the file in which each verb that changes something on the machine is noted.
	Log string
}

// machines lets all sessions work on one machine, and counts what is open.
type machines struct {
	settings       *machineSettings
	key            token.SigningKey
	log            *slog.Logger
	opened, closed atomic.Int64
}

func newMachines(s settings, log *slog.Logger) (*machines, error) {
	m := &machines{settings: s.Machine, log: log}
	var err error
	if s.Machine != nil {
		m.key, err = token.ParseSigningKey(s.Machine.Key)
	}
	return m, err
}

// Open is driver.Machines'. Without a machine the box is nil: tools that leave traces need none.
func (m *machines) Open(_ context.Context, claim store.Claim) (driver.Place, error) {
	m.opened.Add(1)
	place := driver.Place{Machine: "none", Close: func() { m.closed.Add(1) }}
	if m.settings == nil {
		return place, nil
	}
	box, err := m.settings.box(m.key, claim, m.log)
	if err != nil {
		return driver.Place{}, err
	}
	place.Machine, place.Box = m.settings.ID, noted{box, m.settings.Log, claim.Fence}
	place.Close = func() { box.Close(); m.closed.Add(1) }
	return place, nil
}

// box is the machine as an owner of a session sees it.
func (s *machineSettings) box(key token.SigningKey, claim store.Claim, log *slog.Logger) (*remote.Sandbox, error) {
	scope := slots.ScopeOf(claim)
	return remote.New(remote.Options{Dir: s.Dir, Log: log, Machine: client.Options{
		Address: s.Address, Scope: scope, Fence: uint64(claim.Fence), Log: log,
		Tokens: client.SignWith(key, s.App, s.ID, claim.Session.String(), scope),
	}})
}

// note is one verb on a machine.
type note struct {
	Verb       string
	Fence      int64
	Begin, End time.Time
	// Done: the machine did it.
	Done bool
	Err  string
}

// noted is a machine whose verbs leave notes.
type noted struct {
	sandbox.Sandbox
	log   string
	fence int64
}

func (n noted) note(verb string, begin time.Time, done bool, err error) {
	written := note{Verb: verb, Fence: n.fence, Begin: begin, End: time.Now(), Done: done && err == nil}
	if err != nil {
		written.Err = err.Error()
	}
	line, _ := json.Marshal(written)
	if f, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		_, _ = f.Write(append(line, '\n'))
		_ = f.Close()
	}
}

// Start is Sandbox's.
func (n noted) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	begin := time.Now()
	process, err := n.Sandbox.Start(ctx, command)
	n.note("start", begin, true, err)
	return n.process(process, err)
}

// Attach is Sandbox's.
func (n noted) Attach(ctx context.Context, id string) (sandbox.Process, error) {
	return n.process(n.Sandbox.Attach(ctx, id))
}

// Forbid is Sandbox's.
func (n noted) Forbid(ctx context.Context, id string) (bool, error) {
	begin := time.Now()
	forbidden, err := n.Sandbox.Forbid(ctx, id)
	n.note("forbid", begin, forbidden, err)
	return forbidden, err
}

func (n noted) process(p sandbox.Process, err error) (sandbox.Process, error) {
	if err != nil {
		return nil, err
	}
	return notedProcess{p, n}, nil
}

type notedProcess struct {
	sandbox.Process
	noted noted
}

// Signal is Process's.
func (p notedProcess) Signal(ctx context.Context, signal int, target sandbox.Target) (bool, error) {
	begin := time.Now()
	ran, err := p.Process.Signal(ctx, signal, target)
	p.noted.note("signal", begin, ran, err)
	return ran, err
}

// Forget is Process's.
func (p notedProcess) Forget(ctx context.Context) error {
	begin := time.Now()
	err := p.Process.Forget(ctx)
	p.noted.note("forget", begin, true, err)
	return err
}
