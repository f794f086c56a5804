package faults

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Request is one call that was made, in the order in which calls came in.
type Request struct {
	// Seq counts all calls from 1; it goes on after a clear.
	Seq    int       `json:"seq"`
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	// Path is the URL's path, Query its raw query.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Status is 0 while the call is under way, and when its connection was cut.
	Status int `json:"status"`
	// Body is the request's body, cut at 64 KiB.
	Body string `json:"body,omitempty"`
	// Nonce says that the call carried a lease nonce.
	Nonce bool `json:"nonce,omitempty"`
	// UserAgent names the client.
	UserAgent string `json:"user_agent,omitempty"`
}

// Bounds of what is remembered.
const (
	maxRequests    = 20000
	maxLoggedBody  = 64 << 10
	maxLoggedBytes = 64 << 20
	maxPeekedBody  = 8 << 20
	privatePath    = "/_flylocal/"
	registryPrefix = "/v2/"
)

// Requests is the log of calls. It is safe for concurrent use.
type Requests struct {
	mu   sync.Mutex
	seq  int
	size int // The bodies' bytes in list.
	list []*Request
}

// All lists the calls after the given number.
func (l *Requests) All(since int) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Request{}
	for _, r := range l.list {
		if r.Seq > since {
			out = append(out, *r)
		}
	}
	return out
}

// Clear forgets the calls so far.
func (l *Requests) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.size = nil, 0
}

func (l *Requests) add(r *http.Request, body []byte) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	if len(l.list) >= maxRequests || l.size >= maxLoggedBytes {
		half := len(l.list) / 2
		for _, old := range l.list[:half] {
			l.size -= len(old.Body)
		}
		l.list = append([]*Request{}, l.list[half:]...)
	}
	entry := &Request{
		Seq: l.seq, Time: time.Now().UTC(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Body: string(body[:min(len(body), maxLoggedBody)]), Nonce: r.Header.Get("fly-machine-lease-nonce") != "", UserAgent: r.UserAgent(),
	}
	l.list = append(l.list, entry)
	l.size += len(entry.Body)
	return entry
}

func (l *Requests) end(entry *Request, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.Status = status
}

// peek reads a body and puts it back. Bodies of the registry, which are layers, are left alone.
func peek(r *http.Request) []byte {
	if r.Body == nil || strings.HasPrefix(r.URL.Path, registryPrefix) {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxPeekedBody+1))
	rest := r.Body
	back := io.MultiReader(bytes.NewReader(body), rest)
	if err != nil {
		back = io.MultiReader(bytes.NewReader(body), failing{err})
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{back, rest}
	return body
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Middleware logs each call and lets the rules answer before the platform does.
func Middleware(rules *Rules, log *Requests, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, privatePath) {
			next.ServeHTTP(w, r)
			return
		}
		body := peek(r)
		entry := log.add(r, body)
		seen := &seeing{ResponseWriter: w}
		defer func() { log.end(entry, seen.status) }()
		if rule, ok := rules.match(r.Method, r.URL.Path, body); ok {
			rule.answer(seen, r, next)
			return
		}
		next.ServeHTTP(seen, r)
	})
}

// seeing notes the status that goes out.
type seeing struct {
	http.ResponseWriter
	status int
}

func (s *seeing) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *seeing) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what is below.
func (s *seeing) Unwrap() http.ResponseWriter { return s.ResponseWriter }
