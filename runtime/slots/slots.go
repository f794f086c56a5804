package slots

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/driver"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// API is what is asked of the platform; *flyapi.Client is one.
type API interface {
	OrgMachines(ctx context.Context) (flyapi.MachineList, error)
	GetMachine(ctx context.Context, app, id string) (*flyapi.Machine, error)
	SetMetadata(ctx context.Context, app, id, key, value string) error
	WithLease(ctx context.Context, app, id string, fn func(ctx context.Context, lease flyapi.Lease) error) error
	StartMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	StopMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	SuspendMachine(ctx context.Context, app, id string, lease flyapi.Lease) error
	WaitMachine(ctx context.Context, app, id string, w flyapi.WaitRequest) error
	ExecMachine(ctx context.Context, app, id string, command []string, timeout time.Duration) (flyapi.ExecResult, error)
}

// Cold is how an idle machine rests.
type Cold int

const (
	// ColdSuspend keeps the memory; a machine that cannot be suspended is stopped.
	ColdSuspend Cold = iota
	// ColdStop starts it from its image the next time.
	ColdStop
)

// Options of Slots. Store, API, Key and Dial are needed.
type Options struct {
	Store *store.Store
	API   API
	// Key signs the tokens; it must be allowed to speak to the tenants' apps.
	Key token.SigningKey
	// Dial reaches machines on the private network.
	Dial transport.DialFunc
	// Fleet whose machines are used (metadata flyfleet_fleet); empty is the key's.
	Fleet string
	// Pool from which tenants without a machine get one (metadata flyfleet_pool); empty is none.
	Pool string
	// PerMachine is how many sessions may have a slot on a machine; 8.
	PerMachine int
	// Boot is how long a machine that does not answer is waited for in one Open; 90 s.
	Boot time.Duration
	// Wait is how long a machine that answers and cannot take work is waited for in one operation; 20 s.
	Wait time.Duration
	// IdleAfter is how long nothing has gone on before a machine is made cold; 0 is never.
	IdleAfter time.Duration
	// Cold is how.
	Cold Cold
	// SlotIdle is how long a session with nothing to do keeps its slot; 24 h.
	SlotIdle time.Duration
	// Every is the time between two passes of Run; a minute.
	Every time.Duration
	// Linger is how long a connection that no session uses is kept; 30 s.
	Linger time.Duration
	Log    *slog.Logger
}

func (o Options) withDefaults() Options {
	orElse := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Fleet == "" {
		o.Fleet = o.Key.Fleet()
	}
	if o.PerMachine == 0 {
		o.PerMachine = 8
	}
	orElse(&o.Boot, 90*time.Second)
	orElse(&o.Wait, 20*time.Second)
	orElse(&o.SlotIdle, 24*time.Hour)
	orElse(&o.Every, time.Minute)
	orElse(&o.Linger, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Slots opens machines for sessions. It keeps nothing but connections and a list that may be late. Its methods may be called
// from many goroutines. Close it after the last session was released.
type Slots struct {
	options   Options
	store     *store.Store
	api       API
	directory *directory
	roads     *roads
	log       *slog.Logger
}

var _ driver.Machines = (*Slots)(nil)

// New makes Slots. It makes no call.
func New(o Options) (*Slots, error) {
	if o.Store == nil || o.API == nil || o.Dial == nil || o.Key.Fleet() == "" {
		return nil, errors.New("slots: a store, a client of the platform, a signing key and a transport are needed")
	}
	o = o.withDefaults()
	return &Slots{
		options: o, store: o.Store, api: o.API, log: o.Log,
		directory: newDirectory(o.API.OrgMachines), roads: newRoads(o.Dial, o.Linger),
	}, nil
}

// Close drops the connections. Commands run on.
func (s *Slots) Close() error {
	s.directory.close()
	s.roads.close()
	return nil
}

// Run makes idle machines cold and gives idle slots back, one pass (Rest) every Options.Every, until ctx ends. Every replica
// may run it.
func (s *Slots) Run(ctx context.Context) {
	tick := time.NewTicker(s.options.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.Rest(ctx); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "idle machines were not all looked after", "error", err)
		}
	}
}
