package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/executor"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// own are the daemon's paths, beside the gateway's.
type own struct {
	store    *store.Store
	executor *executor.Executor
	// stopping is closed when the replica is to take no more requests.
	stopping <-chan struct{}
	rest     http.Handler
}

func (o *own) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", o.health)
	mux.HandleFunc("GET /readyz", o.ready)
	mux.HandleFunc("GET /version", o.version)
	mux.HandleFunc("GET /metrics", o.metrics)
	mux.Handle("/", o.rest)
	return mux
}

// health: the process answers. It does not ask the database: a restart would not help that.
func (o *own) health(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "ok")
}

// ready: new requests are welcome.
func (o *own) ready(w http.ResponseWriter, r *http.Request) {
	select {
	case <-o.stopping:
		http.Error(w, "stopping", http.StatusServiceUnavailable)
		return
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := o.store.Ping(ctx); err != nil {
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
		return
	}
	if !o.executor.Status().Trusted {
		http.Error(w, "no beat for too long", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

func (o *own) version(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"build": wire.Build, "wire": wire.Version})
}

// metrics are in the text format of Prometheus.
func (o *own) metrics(w http.ResponseWriter, _ *http.Request) {
	status := o.executor.Status()
	trusted := 0
	if status.Trusted {
		trusted = 1
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"flyfleet_sessions_running", "gauge", "Sessions that this replica owns.", status.Running},
		{"flyfleet_sessions_claimed_total", "counter", "Sessions claimed since the start.", status.Claimed},
		{"flyfleet_sessions_taken_over_total", "counter", "Sessions claimed from owners that died.", status.TakenOver},
		{"flyfleet_turns_failed_total", "counter", "Turns that ended by a fault and were given back.", status.Failed},
		{"flyfleet_replica_trusted", "gauge", "1 when the last beat is young enough to begin things.", int64(trusted)},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
