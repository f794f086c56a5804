package acceptance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// exchange is one request that crossed the recorder, with its answer.
type exchange struct {
	Method, Path, Query string
	Body                []byte
	Status              int
	Answer              []byte
}

func (e exchange) writes() bool { return e.Method != http.MethodGet && e.Method != http.MethodHead }

// recorder is a proxy in front of the platform that keeps every exchange in order. A hook may act on a
// request before it is forwarded, or on an answer before the client sees it.
type recorder struct {
	URL string

	mu        sync.Mutex
	exchanges []exchange
	before    func(*http.Request)
	after     func(exchange)
}

func startRecorder(t testing.TB, target string) *recorder {
	t.Helper()
	upstream, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(upstream) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "recorder: "+err.Error(), http.StatusInternalServerError)
		},
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.serve(proxy, w, req)
	})}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.URL = "http://" + listener.Addr().String()
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Logf("recorder: %v; its connections are cut: %v", err, server.Close())
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("recorder ended: %v", err)
		}
	})
	return r
}

func (r *recorder) serve(proxy *httputil.ReverseProxy, w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 256<<20))
	if err != nil {
		http.Error(w, "recorder: "+err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		before(req)
	}
	answer := &heldAnswer{header: http.Header{}, status: http.StatusOK}
	proxy.ServeHTTP(answer, req)
	e := exchange{Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery, Body: body, Status: answer.status, Answer: answer.body.Bytes()}
	r.mu.Lock()
	r.exchanges = append(r.exchanges, e)
	r.mu.Unlock()
	if after != nil {
		after(e)
	}
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.status)
	w.Write(answer.body.Bytes())
}

// onRequest and onAnswer replace the hooks; nil removes one.
func (r *recorder) onRequest(hook func(*http.Request)) { r.mu.Lock(); r.before = hook; r.mu.Unlock() }

func (r *recorder) onAnswer(hook func(exchange)) { r.mu.Lock(); r.after = hook; r.mu.Unlock() }

func (r *recorder) reset() { r.mu.Lock(); r.exchanges = nil; r.mu.Unlock() }

// find returns the exchanges of one method whose path contains all the parts.
func (r *recorder) find(method string, parts ...string) []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []exchange
next:
	for _, e := range r.exchanges {
		if e.Method != method {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(e.Path, part) {
				continue next
			}
		}
		found = append(found, e)
	}
	return found
}

// all returns every exchange so far, in order.
func (r *recorder) all() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]exchange(nil), r.exchanges...)
}

// heldAnswer keeps an answer until the hook has run.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header         { return a.header }
func (a *heldAnswer) WriteHeader(status int)      { a.status = status }
func (a *heldAnswer) Write(p []byte) (int, error) { return a.body.Write(p) }
