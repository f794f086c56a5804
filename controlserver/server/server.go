//go:build linux

// Package server speaks the wire for one machine: it proves callers, hands starts to the keeper, moves
// output into the spool, and sends it from there to whoever follows.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/pump"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// Options are what a Server is made of. All but BodyTime and Now are required.
type Options struct {
	Spool *spool.Spool
	Kind  wirev1.SpoolKind
	// Keeper gives the keeper and the execs that live already, told whom to notify of ends.
	Keeper    func(notify func(keeper.Ended)) (keeper.Keeper, []keeper.Live, error)
	Trust     token.Trust
	App       string
	Machine   string
	Accounts  *account.Accounts
	Workspace string
	// Run is a directory that lasts as long as the keeper; what the next server must know lies there.
	Run string
	Log *slog.Logger
	// BodyTime is how long a request's body may take to arrive; 0 means DefaultBodyTime.
	BodyTime time.Duration
	// Now is the clock of tokens and ids; nil means time.Now.
	Now func() time.Time
}

// Server is the wire's end on the machine.
type Server struct {
	wirev1connect.UnimplementedControlServiceHandler
	options  Options
	instance string
	tokens   *token.Verifier
	fences   *fences
	door     *door
	execs    *registry
	graves   *spool.Graveyard
	janitor  *janitor
	ptySafe  bool
	keeper   keeper.Keeper
	log      *slog.Logger
	streams  streams
}

// maxIDAge is how far back an id may lie: the machine remembers ids at least so long.
const maxIDAge = 24 * time.Hour

// New makes a server for a keeper, and takes over what lives. Its own work ends with ctx, or Close.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Spool == nil || o.Keeper == nil || o.Accounts == nil || o.Log == nil || o.App == "" || o.Machine == "" || o.Workspace == "" || o.Run == "" {
		return nil, errors.New("control server: an option is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BodyTime <= 0 {
		o.BodyTime = DefaultBodyTime
	}
	graves, err := o.Spool.Graveyard()
	if err != nil {
		return nil, err
	}
	d := &door{now: o.Now, most: mostRunning()}
	s := &Server{
		options: o, instance: uuid.NewString(), tokens: token.NewVerifier(o.Trust, o.App, o.Machine), fences: newFences(o.Spool), door: d, graves: graves,
		execs: newRegistry(o.Spool, graves, d, o.Log), log: o.Log, ptySafe: pump.CanStoreTerminals(),
	}
	early := newMailbox()
	k, lives, err := o.Keeper(early.put)
	if err != nil {
		return nil, err
	}
	s.keeper, s.execs.keeper = k, k
	if d.until, err = s.recallQuiesce(); err != nil {
		return nil, err
	}
	s.execs.adopt(lives)
	crashpoint.At(crashpoint.Adopted)
	early.open(s.execs.onEnded)
	s.janitor = startJanitor(ctx, s.execs, o.Now)
	return s, nil
}

// Handler serves the wire and GET /healthz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	path, rpc := wirev1connect.NewControlServiceHandler(s, connect.WithCompression("gzip", nil, nil))
	mux.Handle(path, s.prove(rpc))
	return mux
}

// Close stops the server's own work. Call it after the HTTP server is down.
func (s *Server) Close() { s.janitor.stop() }

// mailbox holds what is told before there is somebody to tell.
type mailbox struct {
	mu   sync.Mutex
	kept []keeper.Ended
	to   func(keeper.Ended)
}

func newMailbox() *mailbox { return &mailbox{} }

func (b *mailbox) put(e keeper.Ended) {
	b.mu.Lock()
	to := b.to
	if to == nil {
		b.kept = append(b.kept, e)
	}
	b.mu.Unlock()
	if to != nil {
		to(e)
	}
}

func (b *mailbox) open(to func(keeper.Ended)) {
	b.mu.Lock()
	kept := b.kept
	b.kept, b.to = nil, to
	b.mu.Unlock()
	for _, e := range kept {
		to(e)
	}
}
