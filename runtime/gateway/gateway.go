package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/semaphore"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// Options of a Gateway. Store is needed; zero values of the others are the defaults.
type Options struct {
	Store *store.Store
	// Sealer of credentials. Nil: submissions with credentials are refused.
	Sealer secrets.Sealer
	// Agent says whether there is an agent of that name. Nil: every name is taken.
	Agent func(name string) bool
	// Keys prove API keys. Nil: those in the store.
	Keys Keys
	Door DoorOptions
	SSE  SSEOptions
	// Proxy is the commands' way back.
	Proxy ProxyOptions
	// EventBytes bounds what all clients' events may take at the same time, on their way. 64 MiB.
	EventBytes int64
	// Traces takes spans of requests. Nil: there are none, and a caller's trace is only handed on.
	Traces trace.TracerProvider
	Log    *slog.Logger
}

// Gateway answers the API of flyfleet.runtime.v1, GET /v1/sessions/{session}/events, and what commands ask below ProxyPath. Close
// it.
type Gateway struct {
	store   *store.Store
	sealer  secrets.Sealer
	agent   func(string) bool
	log     *slog.Logger
	door    *Door
	sse     SSEOptions
	handler http.Handler
	// proxy is nil when commands have no way back.
	proxy *proxy
	room  *semaphore.Weighted
	most  int64

	stop context.CancelCauseFunc
	life context.Context //nolint:containedctx // ends every stream at Close
	// mu keeps a stream from beginning while Close waits.
	mu      sync.Mutex
	streams sync.WaitGroup
}

var errStopping = errors.New("the server stops: ask again with the last cursor")

// New makes a gateway.
func New(o Options) (*Gateway, error) {
	if o.Store == nil {
		return nil, errors.New("gateway: it needs a store")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Door.Log == nil {
		o.Door.Log = o.Log
	}
	if o.Keys == nil {
		o.Keys = apikey.NewVerifier(storedKeys{o.Store}, apikey.Options{})
	}
	if o.Agent == nil {
		o.Agent = func(string) bool { return true }
	}
	if o.Traces == nil {
		o.Traces = noop.NewTracerProvider()
	}
	if o.EventBytes < pageBytes {
		o.EventBytes = 64 << 20
	}
	g := &Gateway{
		store: o.Store, sealer: o.Sealer, agent: o.Agent, log: o.Log, sse: o.SSE.withDefaults(),
		door: NewDoor(o.Keys, o.Door), room: semaphore.NewWeighted(o.EventBytes), most: o.EventBytes,
	}
	g.life, g.stop = context.WithCancelCause(context.Background())
	mux := http.NewServeMux()
	mux.Handle(runtimev1connect.NewRuntimeServiceHandler(&service{Gateway: g}, connect.WithReadMaxBytes(int(g.door.options.MaxBody)),
		connect.WithInterceptors(tracing(o.Traces.Tracer(scopeName)))))
	mux.Handle("GET /v1/sessions/{session}/events", g.streaming(g.door.Events(g.open, g.sse)))
	g.handler = g.door.Wrap(mux)
	if o.Proxy.Keys != nil {
		g.proxy = newProxy(g, o.Proxy)
	}
	return g, nil
}

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.proxy != nil && strings.HasPrefix(r.URL.Path, ProxyPath) {
		g.proxy.ServeHTTP(w, r)
		return
	}
	g.handler.ServeHTTP(w, r)
}

// Close ends all streams and waits for them. New ones are refused. Requests that only ask and answer are the HTTP server's
// to wait for.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.stop(errStopping)
	g.mu.Unlock()
	g.streams.Wait()
}

// begin makes a context that ends with the gateway too.
func (g *Gateway) begin(ctx context.Context) (context.Context, func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.life.Err() != nil {
		return nil, nil, connect.NewError(connect.CodeUnavailable, errStopping)
	}
	g.streams.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(g.life, func() { cancel(errStopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
		g.streams.Done()
	}, nil
}

func (g *Gateway) streaming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end, err := g.begin(r.Context())
		if err != nil {
			writeError(w, connect.NewError(connect.CodeUnavailable, errStopping))
			return
		}
		defer end()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
