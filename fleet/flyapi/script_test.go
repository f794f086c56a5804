package flyapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// script is a transport that answers from a function and records what was asked. Inside a synctest bubble all waiting
// between the tries takes no time.
type script struct {
	mu     sync.Mutex
	calls  []call
	answer func(c call, n int) answer // n counts the calls of the same method and path, from 1
}

type call struct {
	method, path, query, body string
	header                    http.Header
	host                      string
}

func (c call) key() string { return c.method + " " + c.path }

type answer struct {
	status int
	body   string
	header map[string]string
	err    error
}

func ok(body string) answer { return answer{status: 200, body: body} }

func refuse(status int, text string) answer {
	return answer{status: status, body: fmt.Sprintf(`{"error":%q}`, text)}
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err // never sent
	}
	c := call{method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, header: req.Header.Clone(), host: req.URL.Scheme + "://" + req.URL.Host}
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body.Close()
		c.body = string(b)
	}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	n := 0
	for _, o := range s.calls {
		if o.key() == c.key() {
			n++
		}
	}
	s.mu.Unlock()
	a := s.answer(c, n)
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{"Fly-Request-Id": {"req-1"}}
	for k, v := range a.header {
		h.Set(k, v)
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(a.body)), Request: req,
	}, nil
}

// asked lists "METHOD path" of all calls, in order.
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.calls {
		out = append(out, c.key())
	}
	return out
}

func (s *script) count(key string) int {
	n := 0
	for _, k := range s.asked() {
		if k == key {
			n++
		}
	}
	return n
}

func (s *script) last(t *testing.T, key string) call {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].key() == key {
			return s.calls[i]
		}
	}
	t.Fatalf("%s was never called", key)
	return call{}
}

func client(t *testing.T, s *script, change ...func(*flyapi.Config)) *flyapi.Client {
	t.Helper()
	cfg := flyapi.Config{FlapsURL: "http://fly.test", GraphQLURL: "http://fly.test", Token: "fo1_token", Org: "acme", Transport: s, Pace: flyapi.PaceOff}
	for _, c := range change {
		c(&cfg)
	}
	cl, err := flyapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}
