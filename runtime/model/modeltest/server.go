// Package modeltest holds a client of a provider to what package model promises, against a fake provider on
// this computer. The fake is strict: it takes what the provider's documentation allows and nothing else.
package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/model"
)

// Key is the one that the fake takes.
const Key = "sk-test-4d5e6f7a8b9c"

// Dialect is a provider's API, as far as the fake needs to know it.
type Dialect struct {
	// Path of the one endpoint.
	Path string
	// Key is the key that a request carries.
	Key func(http.Header) string
	// New makes the client under test.
	New func(t testing.TB, base string, limits model.Limits, key func() (string, error)) model.Model
	// Events are the stream of an answer; the last one ends it.
	Events func(Spoken) []string
	// Refusal is the body of an error.
	Refusal func(kind, message string) string
	// Refused reads the errors that a status and a kind must become, beyond those that are the same everywhere.
	Refused []Refusal
	// Valid says what is wrong with a request's body.
	Valid func(body map[string]json.RawMessage) error
}

// Refusal is an answer of the fake that is no answer.
type Refusal struct {
	Name    string
	Status  int
	Header  map[string]string
	Kind    string
	Message string
	Want    model.ErrorKind
}

// Spoken is what the fake says: strings are the insides of JSON strings, in the pieces in which they are sent.
type Spoken struct {
	Thinking  []string
	Signature string
	Text      []string
	Calls     []SpokenCall
}

// SpokenCall is a call that the fake makes. Args are the pieces of the arguments' JSON text.
type SpokenCall struct {
	ID, Name string
	Args     []string
}

// Server is the fake.
type Server struct {
	*httptest.Server
	t       testing.TB
	dialect Dialect

	mu      sync.Mutex
	answers []http.HandlerFunc
	bodies  [][]byte
}

// NewServer starts a fake that gives each request the next of the answers.
func NewServer(t testing.TB, d Dialect, answers ...http.HandlerFunc) *Server {
	s := &Server{t: t, dialect: d, answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Bodies are the requests so far.
func (s *Server) Bodies() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = s.check(r, body)
	}
	if err != nil {
		// The client under test sees it too, as a refusal.
		s.t.Errorf("the fake refuses: %v", err)
		http.Error(w, s.dialect.Refusal("invalid_request_error", err.Error()), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	var answer http.HandlerFunc
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if answer == nil {
		s.t.Error("one request more than was expected")
		http.Error(w, "no answer left", http.StatusBadRequest)
		return
	}
	answer(w, r)
}

func (s *Server) check(r *http.Request, body []byte) error {
	if r.Method != http.MethodPost || r.URL.Path != s.dialect.Path {
		return fmt.Errorf("%s %s", r.Method, r.URL.Path)
	}
	if got := s.dialect.Key(r.Header); got != Key {
		return fmt.Errorf("key %q", got)
	}
	if got := r.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/json") {
		return fmt.Errorf("content type %q", got)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return err
	}
	if string(members["stream"]) != "true" {
		return fmt.Errorf("stream is %s", members["stream"])
	}
	return s.dialect.Valid(members)
}

// Stream answers with events, and goes on to then, which may be nil.
func Stream(events []string, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			if _, err := io.WriteString(w, e); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		if then != nil {
			then(w, r)
		}
	}
}

// Stall is silent until the client has gone.
func Stall(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Cut breaks the connection.
func Cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Close()
	}
}

// Quote makes JSON strings of insides.
func Quote(inside string) string { return `"` + inside + `"` }

// Escape is the inside of the JSON string of a text.
func Escape(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw[1 : len(raw)-1])
}
