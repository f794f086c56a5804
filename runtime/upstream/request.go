package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Request is what a command asks an upstream for.
type Request struct {
	Method string
	// Path is Canonical, below the upstream's base URL.
	Path    string
	Query   string
	Headers map[string]string
	Body    []byte
}

// args is a request as rules, people and digests see it.
type args struct {
	// Request is "METHOD /path".
	Request string            `json:"request"`
	Query   string            `json:"query,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// BodySHA256 and BodyBytes stand for the bytes that came.
	BodySHA256 string `json:"body_sha256,omitempty"`
	BodyBytes  int    `json:"body_bytes,omitempty"`
	// Body is what a person put in their place.
	Body *string `json:"body,omitempty"`
}

// schema of args.
const schema = `{
	"type": "object",
	"properties": {
		"request": {"type": "string", "pattern": "^[A-Z]+ /"},
		"query": {"type": "string"},
		"headers": {"type": "object", "additionalProperties": {"type": "string"}},
		"body_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
		"body_bytes": {"type": "integer", "minimum": 0},
		"body": {"type": "string"}
	},
	"required": ["request"],
	"additionalProperties": false
}`

// Ask makes a request of a command's. escaped is the path below the upstream, with its escapes. An error says what is wrong
// with it, in words for the command.
func (u *Upstream) Ask(r *http.Request, escaped string, body []byte) (Request, error) {
	path, err := Canonical(escaped)
	if err != nil {
		return Request{}, err
	}
	asked := Request{Method: r.Method, Path: path, Query: r.URL.RawQuery, Headers: pick(r.Header, u.headers), Body: body}
	return asked, asked.check(u)
}

func (r Request) check(u *Upstream) error {
	if !slices.Contains(methods, r.Method) {
		return errors.New("the method is not passed on")
	}
	if canonical, err := Canonical(r.Path); err != nil || canonical != r.Path {
		return errPath
	}
	if _, err := url.ParseQuery(r.Query); err != nil || len(r.Query) > maxPath || strings.ContainsFunc(r.Query, func(c rune) bool { return control(c) || c == ' ' || c == '#' }) {
		return errors.New("the query cannot be read")
	}
	for name, value := range r.Headers {
		if !slices.Contains(u.headers, name) || strings.ContainsFunc(value, func(c rune) bool { return control(c) && c != '\t' }) {
			return errors.New("a header is not passed on, or cannot be read")
		}
	}
	if int64(len(r.Body)) > u.MaxRequest {
		return fmt.Errorf("the body has more than %d bytes", u.MaxRequest)
	}
	return nil
}

// Args are a request's arguments: the same for the same request.
func (r Request) Args() (json.RawMessage, error) {
	a := args{Request: r.Method + " " + r.Path, Query: r.Query, Headers: r.Headers, BodyBytes: len(r.Body)}
	if len(r.Body) > 0 {
		a.BodySHA256 = digest(r.Body)
	}
	return json.Marshal(a)
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// errOtherBody says that the bytes at hand are not those that the arguments speak of.
var errOtherBody = errors.New("the body is not the one that was asked for")

// read makes the request that arguments allow, of the body that came with them unless they have one of their own.
func (u *Upstream) read(text json.RawMessage, body []byte) (Request, error) {
	var a args
	if err := json.Unmarshal(text, &a); err != nil {
		return Request{}, err
	}
	r := Request{Query: a.Query, Headers: a.Headers, Body: body}
	r.Method, r.Path, _ = strings.Cut(a.Request, " ")
	switch {
	case a.Body != nil:
		r.Body = []byte(*a.Body)
	case a.BodySHA256 == "" && len(body) > 0, a.BodySHA256 != "" && a.BodySHA256 != digest(body):
		return Request{}, errOtherBody
	}
	return r, r.check(u)
}

// maxShown is how much of a body a card shows.
const maxShown = 8 << 10

func shown(text json.RawMessage, body []byte) json.RawMessage {
	all := map[string]json.RawMessage{}
	if len(body) == 0 || json.Unmarshal(text, &all) != nil {
		return text
	}
	name, seen := "body", body
	if len(seen) > maxShown || !utf8.Valid(body) {
		name, seen = "body_begins", seen[:min(len(seen), maxShown)]
	}
	told, err := json.Marshal(strings.ToValidUTF8(string(seen), "\uFFFD"))
	if err != nil {
		return text
	}
	all[name] = told
	out, err := json.Marshal(all)
	if err != nil {
		return text
	}
	return out
}
