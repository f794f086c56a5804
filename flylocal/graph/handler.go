// Package graph answers the GraphQL API of Fly's web side as far as fly-go, flyctl and fleet tools use it. It executes
// queries against resolvers, without a schema: a field that is not there is an error of that field.
package graph

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/images"
)

// maxBody bounds a request's body.
const maxBody = 1 << 20

// API answers queries about a world.
type API struct {
	World  *engine.World
	Images *images.Finder
}

type request struct {
	Query     string         `json:"query"`
	Operation string         `json:"operationName"`
	Variables map[string]any `json:"variables"`
}

type response struct {
	Data   map[string]any `json:"data"`
	Errors []graphError   `json:"errors,omitempty"`
}

type graphError struct {
	Message    string            `json:"message"`
	Extensions map[string]string `json:"extensions,omitempty"`
}

// ServeHTTP answers POST /graphql. The status is always 200: clients take any other for a broken server.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var req request
	if err == nil {
		err = json.Unmarshal(raw, &req)
	}
	if err != nil {
		write(w, response{Errors: []graphError{{Message: "request: " + err.Error()}}})
		return
	}
	data, errs := execute(req.Query, req.Operation, req.Variables, map[ast.Operation]object{
		ast.Query: a.query(), ast.Mutation: a.mutation(),
	})
	out := response{Data: data}
	for _, err := range errs {
		out.Errors = append(out.Errors, encode(err))
	}
	write(w, out)
}

// Unauthorized is the answer to a call without the token.
func Unauthorized(w http.ResponseWriter) {
	write(w, response{Errors: []graphError{encode(&codedError{code: "UNAUTHORIZED", message: "You must be authenticated to view this."})}})
}

func encode(err error) graphError {
	out := graphError{Message: err.Error()}
	var coded *codedError
	if errors.As(err, &coded) {
		out.Extensions = map[string]string{"code": coded.code}
	}
	return out
}

func write(w http.ResponseWriter, out response) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(out) // The client has gone; nobody is left to tell.
}
