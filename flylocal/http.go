package flylocal

import (
	"crypto/rand"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/flaps"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/graph"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/webapi"
)

// handler joins the surfaces: who may speak, what is disturbed, and who answers.
func (p *Platform) handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/", p.authorized(flaps.Handler(p.Machines, log)))
	mux.Handle("/api/v1/", p.authorized(webapi.Handler(p.Machines)))
	mux.Handle("POST /graphql", p.graphAuth(&graph.API{World: p.Machines, Images: p.images}))
	mux.Handle("/v2/", p.registryAuth(p.registry.Handler()))
	mux.Handle("/_flylocal/", p.authorized(p.Faults.Handler()))
	return identified(p.Faults.Wrap(mux))
}

// identified gives each answer the request id that clients print with errors.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Fly-Request-Id", rand.Text()+"-local")
		next.ServeHTTP(w, r)
	})
}

// authorized lets a call through whose Authorization holds the token, in any of Fly's schemes: "Bearer" or "FlyV1",
// with one or more tokens parted by commas.
func (p *Platform) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.knows(r.Header.Get("Authorization")) {
			flaps.WriteRefusal(w, &engine.Refusal{Status: http.StatusUnauthorized, Text: "Authenticate: token validation error"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// graphAuth is authorized for GraphQL, whose status is always 200.
func (p *Platform) graphAuth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.knows(r.Header.Get("Authorization")) {
			graph.Unauthorized(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *Platform) knows(header string) bool {
	scheme, tokens, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "FlyV1") {
		return false
	}
	return slices.ContainsFunc(strings.Split(tokens, ","), p.isToken)
}

func (p *Platform) isToken(text string) bool {
	return subtle.ConstantTimeCompare([]byte(strings.TrimSpace(text)), []byte(p.Token())) == 1
}

// registryAuth wants the token as password, as registry.fly.io does; the user name is not looked at.
func (p *Platform) registryAuth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if p.isToken(password) || p.knows(r.Header.Get("Authorization")) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Www-Authenticate", `Basic realm="flylocal"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"the registry wants the API token as password"}]}`))
	})
}
