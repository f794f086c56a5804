package remote

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// DefaultDir is where the workspace is on every machine of ours.
const DefaultDir = "/workspace"

const defaultPatience = 30 * time.Second

// Options say which machine a Sandbox is.
type Options struct {
	// Machine is how to reach it, with scope and fence. Two clients are made of it, so that what is read or written in bulk has a
	// connection of its own and keeps no prompt waiting. Neither connects before its first use.
	Machine client.Options
	// Bulk is the second connection, where Machine.Road is the first one: the sandboxes of many sessions then share two. With only
	// one of them given, the other is the sandbox's own.
	Bulk *client.Road
	// Dir is where relative names and commands start; empty is DefaultDir.
	Dir string
	// Wait is how long a machine that cannot take work just now (a swap, a restart, too many commands) is waited for before
	// that is an *sandbox.UnavailableError. 0: not at all.
	Wait time.Duration
	// Patience is how long a broken connection is repaired without progress; 0 is 30 s.
	Patience time.Duration
	// Log hears of what fails in the background; nil discards.
	Log *slog.Logger
}

// Sandbox is a machine as one session sees it.
type Sandbox struct {
	*link

	dir string
	// once is the id of a view's only operation.
	once string
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// link is what all views of a sandbox share.
type link struct {
	control, bulk *client.Client
	wait          time.Duration
	patience      time.Duration
	log           *slog.Logger
	forget        *forgetter

	// life ends with Close: feeders of commands that were started with much input live under it.
	life   context.Context //nolint:containedctx // the life of the sandbox, not of a call
	end    context.CancelFunc
	feeder sync.WaitGroup
}

// New makes the sandbox of a machine. It connects to nothing.
func New(o Options) (*Sandbox, error) {
	if o.Dir == "" {
		o.Dir = DefaultDir
	}
	if !path.IsAbs(o.Dir) || strings.IndexByte(o.Dir, 0) >= 0 {
		return nil, fmt.Errorf("remote sandbox: the directory %q is not absolute", o.Dir)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	control, err := client.New(o.Machine)
	if err != nil {
		return nil, fmt.Errorf("remote sandbox: %w", err)
	}
	o.Machine.Road = o.Bulk
	bulk, err := client.New(o.Machine)
	if err != nil {
		return nil, fmt.Errorf("remote sandbox: %w", err)
	}
	l := &link{control: control, bulk: bulk, wait: o.Wait, patience: o.Patience, log: o.Log}
	l.life, l.end = context.WithCancel(context.Background())
	l.forget = newForgetter(control, o.Log)
	return &Sandbox{link: l, dir: path.Clean(o.Dir)}, nil
}

// Close ends what the sandbox does in the background and drops its connections. Commands run on. Calls in flight fail or finish.
func (s *Sandbox) Close() {
	s.end()
	s.feeder.Wait()
	s.forget.close()
	s.control.Close()
	s.bulk.Close()
}

// Dir is the absolute directory that relative names and commands start in.
func (s *Sandbox) Dir() string { return s.dir }

// In is the same sandbox with another Dir.
func (s *Sandbox) In(dir string) sandbox.Sandbox {
	view := *s
	view.dir = join(s.dir, dir)
	return &view
}

// join puts a relative name below a directory. ".." is left to the kernel: behind a link it leads elsewhere than its text says.
func join(dir, name string) string {
	switch {
	case name == "":
		return dir
	case !path.IsAbs(name):
		name = strings.TrimSuffix(dir, "/") + "/" + name
	}
	if climbs(name) {
		return name
	}
	return path.Clean(name)
}

// Once is a view for one operation that must not be done twice. The machine keeps its answer for a day, but no more than 32 MiB of what it
// read: a repeat of a larger read, and any repeat after the day, is ErrExpired.
func (s *Sandbox) Once(id string) sandbox.Sandbox {
	view := *s
	view.once = id
	return &view
}

// Describe asks the machine who it is.
func (s *Sandbox) Describe(ctx context.Context) (sandbox.Description, error) {
	if ctx.Err() != nil {
		return sandbox.Description{}, context.Cause(ctx)
	}
	hello, err := repeat(ctx, s.link, s.control.Hello)
	if err != nil {
		return sandbox.Description{}, err
	}
	return sandbox.Description{
		Epoch: hello.GetEpoch(), User: hello.GetExecUser(),
		Durable: hello.GetSpool() == wirev1.SpoolKind_SPOOL_KIND_DURABLE,
		Streams: int(hello.GetLimits().GetMaxStreams()),
	}, nil
}
