// Package server speaks the wire for one machine: it proves callers, hands starts to the keeper, moves
// output into the spool, and sends it from there to whoever follows.
package server

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1/wirev1connect"
)

// Options are what a Server is made of. All but BodyTime and Now are required.
type Options struct {
	Spool *spool.Spool
	Kind  wirev1.SpoolKind
	// Keeper makes the keeper, given whom to notify of ends.
	Keeper    func(notify func(keeper.Ended)) (keeper.Keeper, error)
	Trust     token.Trust
	App       string
	Machine   string
	Accounts  *account.Accounts
	Workspace string
	Log       *slog.Logger
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
	fences   *fences
	door     *door
	execs    *registry
	keeper   keeper.Keeper
	log      *slog.Logger
	streams  streams
}

// maxIDAge is how far back an id may lie: the machine remembers ids at least so long.
const maxIDAge = 24 * time.Hour

// New makes a server and its keeper.
func New(o Options) (*Server, error) {
	if o.Spool == nil || o.Keeper == nil || o.Accounts == nil || o.Log == nil || o.App == "" || o.Machine == "" || o.Workspace == "" {
		return nil, errors.New("control server: an option is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.BodyTime <= 0 {
		o.BodyTime = DefaultBodyTime
	}
	d := &door{now: o.Now, most: mostRunning()}
	s := &Server{
		options: o, instance: uuid.NewString(), fences: newFences(o.Spool), door: d,
		execs: newRegistry(o.Spool, d, o.Log), log: o.Log,
	}
	k, err := o.Keeper(s.execs.onEnded)
	if err != nil {
		return nil, err
	}
	s.keeper, s.execs.keeper = k, k
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
