package daemon

import (
	"net/http"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// gateway makes what answers every path that is not the daemon's own. It is closed to new requests before the store is.
func gateway(_ Config, _ *store.Store) http.Handler {
	return http.NotFoundHandler()
}
