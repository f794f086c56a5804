package daemon

import (
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// newGateway makes what answers every path that is not the daemon's own. Its streams are ended once sessions are handed
// over, and it is closed before the store is.
func newGateway(c Config, db *store.Store, all *agents, sealer secrets.Sealer, back *wayBack, traces trace.TracerProvider, log *slog.Logger) (*gateway.Gateway, error) {
	return gateway.New(gateway.Options{
		Store: db, Sealer: sealer, Traces: traces, Log: log, Proxy: back.gateway(),
		Agent: func(name string) bool {
			_, err := all.Agent(name)
			return err == nil
		},
		Door: gateway.DoorOptions{Rates: gateway.Rates{PerSecond: c.TenantRate, Burst: c.TenantBurst, Streams: c.TenantStreams}},
	})
}
