// Package flaps speaks the Machines REST API (/v1) for the engine: paths, queries, bodies, and Fly's words for errors.
package flaps

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
)

// NonceHeader carries a lease's nonce.
const NonceHeader = "fly-machine-lease-nonce"

// maxBody bounds a request's body.
const maxBody = 8 << 20

// api holds what the handlers share.
type api struct {
	world *engine.World
	log   *slog.Logger
}

// answer is what a handler gives: a status and a body, or an error that says both.
type answer struct {
	status int
	body   []byte
}

type handler func(r *http.Request) (answer, error)

var accepted = answer{status: http.StatusOK, body: []byte(`{"ok":true}`)}

func ok(body []byte) (answer, error) { return answer{status: http.StatusOK, body: body}, nil }

// Handler serves /v1. The caller has checked the token.
func Handler(world *engine.World, log *slog.Logger) http.Handler {
	a := &api{world: world, log: log}
	mux := http.NewServeMux()
	for _, routes := range []map[string]handler{a.appRoutes(), a.machineRoutes(), a.insideRoutes(), a.volumeRoutes(), a.secretRoutes(), a.orgRoutes()} {
		for pattern, h := range routes {
			mux.HandleFunc(pattern, a.serve(h))
		}
	}
	mux.HandleFunc("/", a.serve(func(*http.Request) (answer, error) {
		return answer{}, &engine.Refusal{Status: http.StatusNotFound, Text: "404 page not found"}
	}))
	return mux
}

func (a *api) serve(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		got, err := h(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if len(got.body) > 0 {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
		}
		w.WriteHeader(got.status)
		_, _ = w.Write(got.body)
	}
}

// fail writes Fly's error body: {"error": text, "status": code}, or the form of a lease error.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *engine.Refusal
	if !errors.As(err, &refusal) {
		a.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		refusal = &engine.Refusal{Status: http.StatusInternalServerError, Text: "internal: " + err.Error()}
	}
	WriteRefusal(w, refusal)
}

// WriteRefusal writes a refusal as the Machines API does.
func WriteRefusal(w http.ResponseWriter, refusal *engine.Refusal) {
	var o object
	if refusal.Lease {
		o.str("status", "error")
		o.str("message", refusal.Text)
		o.str("code", "invalid")
	} else {
		o.str("error", refusal.Text)
		o.optional("status", refusal.Code)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(refusal.Status)
	_, _ = w.Write(o.bytes())
}

// decode reads a JSON body into a value; an empty body leaves it as it is.
func decode(r *http.Request, into any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return badRequest("request body: " + err.Error())
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return badRequest("invalid JSON: " + err.Error())
	}
	return nil
}

func badRequest(text string) error {
	return &engine.Refusal{Status: http.StatusBadRequest, Text: "invalid_argument: " + text}
}

func appOf(r *http.Request) string { return r.PathValue("app") }

func idOf(r *http.Request) string { return r.PathValue("id") }

func nonceOf(r *http.Request) string { return r.Header.Get(NonceHeader) }
