package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/apikey"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
)

// ring is a key ring in memory.
type ring struct {
	keys map[string]apikey.Key
	err  error
}

func (r *ring) APIKey(_ context.Context, id string) (apikey.Key, error) {
	if k, ok := r.keys[id]; ok || r.err != nil {
		return k, r.err
	}
	return apikey.Key{}, apikey.ErrUnknown
}

// bench is a door with the keys of two tenants, and what it logs.
type bench struct {
	door      *Door
	ring      *ring
	acme, zed string
	log       *bytes.Buffer
	now       time.Time
}

func setup(t *testing.T, options DoorOptions) *bench {
	t.Helper()
	b := &bench{ring: &ring{keys: map[string]apikey.Key{}}, log: &bytes.Buffer{}, now: time.Now()}
	for tenant, to := range map[string]*string{"acme": &b.acme, "zed": &b.zed} {
		text, key, err := apikey.Mint(tenant)
		if err != nil {
			t.Fatal(err)
		}
		*to, b.ring.keys[key.ID] = text, key
	}
	options.Log = slog.New(slog.NewTextHandler(b.log, nil))
	if options.Now == nil {
		options.Now = func() time.Time { return b.now }
	}
	b.door = NewDoor(apikey.NewVerifier(b.ring, apikey.Options{}), options)
	return b
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// whoami answers with the caller's tenant and the length of the body.
var whoami = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %d %v", CallerOf(r.Context()).Tenant, n, err)
})

func get(t *testing.T, s *httptest.Server, authorization, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.URL+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestKeyNamesTheTenant(t *testing.T) {
	b := setup(t, DoorOptions{MaxBody: 10})
	s := serve(t, b.door.Wrap(whoami))
	for authorization, want := range map[string]string{
		"Bearer " + b.acme: "acme 4 <nil>", "bearer  " + b.zed: "zed 4 <nil>",
	} {
		if resp, text := get(t, s, authorization, "body"); resp.StatusCode != http.StatusOK || text != want {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	}
	for _, bad := range []string{"", b.acme, "Basic " + b.acme, "Bearer", "Bearer " + b.acme + "x", "Bearer " + b.acme + ", Bearer " + b.zed} {
		resp, text := get(t, s, bad, "body")
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(text, `"unauthenticated"`) {
			t.Errorf("%q: %d %s", bad, resp.StatusCode, text)
		}
	}
	if _, text := get(t, s, "Bearer "+b.acme, strings.Repeat("x", 11)); !strings.Contains(text, "too large") {
		t.Errorf("a body over the limit: %s", text)
	}
	for _, secret := range []string{b.acme, b.zed, b.acme[20:40]} {
		if strings.Contains(b.log.String(), secret) {
			t.Errorf("a key is in the log: %s", b.log)
		}
	}
}

// A stranger with a body that never comes gets its answer at once, and so the connection back, whether the body
// would be small enough to be read to its end or not.
func TestStrangersBodyIsNotWaitedFor(t *testing.T) {
	b := setup(t, DoorOptions{})
	s := httptest.NewServer(b.door.Wrap(whoami))
	defer s.Close()
	for _, length := range []int{1000, 1000000000} {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nobody\r\nContent-Length: %d\r\n\r\n", length)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("a body of %d bytes: %v", length, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !resp.Close {
			t.Errorf("a body of %d bytes: %s, close %v", length, resp.Status, resp.Close)
		}
	}
}

// A friend's body has its time, and no more.
func TestSlowBodyIsCut(t *testing.T) {
	b := setup(t, DoorOptions{BodyTime: 50 * time.Millisecond})
	ended := make(chan error, 1)
	s := httptest.NewServer(b.door.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\nabc", b.acme)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a body that never came was read whole")
		}
	case <-time.After(20 * time.Second):
		t.Error("the body is waited for")
	}
}

// deadlines is a connection that records what deadline it has.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = at
	return nil
}

// The deadline of the body is none of the answer, which may take days.
func TestDeadlineIsLiftedWhenTheBodyHasCome(t *testing.T) {
	b := setup(t, DoorOptions{})
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	req := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader("body"))
	req.Header.Set("Authorization", "Bearer "+b.acme)
	b.door.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if w.read.IsZero() {
			t.Error("the body may take for ever")
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if !w.read.IsZero() {
			t.Error("the deadline stands after the body has come")
		}
	})).ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
}

func TestTenantsHaveRatesOfTheirOwn(t *testing.T) {
	b := setup(t, DoorOptions{Rates: Rates{PerSecond: 0.5, Burst: 3}})
	s := serve(t, b.door.Wrap(whoami))
	for range 3 {
		if resp, _ := get(t, s, "Bearer "+b.acme, ""); resp.StatusCode != http.StatusOK {
			t.Fatalf("%d within the burst", resp.StatusCode)
		}
	}
	for range 3 { // being refused costs nothing more
		resp, text := get(t, s, "Bearer "+b.acme, "")
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "2" || !strings.Contains(text, "resource_exhausted") {
			t.Errorf("%d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), text)
		}
	}
	if resp, _ := get(t, s, "Bearer "+b.zed, ""); resp.StatusCode != http.StatusOK {
		t.Error("one tenant uses up the rate of another")
	}
	b.now = b.now.Add(2 * time.Second)
	if resp, _ := get(t, s, "Bearer "+b.acme, ""); resp.StatusCode != http.StatusOK {
		t.Error("after Retry-After it is refused again")
	}
}

func TestLimiterForgetsWhoAsksNothing(t *testing.T) {
	l := newLimiter(Rates{PerSecond: 1, Burst: 1})
	now := time.Now()
	for i := range 3 * sweepAt {
		l.call(fmt.Sprint(i), now)
		now = now.Add(time.Millisecond)
	}
	if len(l.buckets) > sweepAt+1 {
		t.Errorf("%d tenants are remembered", len(l.buckets))
	}
}

// Every protocol of Connect gets the refusal in its own form.
func TestRefusalsAreReadByConnectClients(t *testing.T) {
	b := setup(t, DoorOptions{Rates: Rates{PerSecond: 0.001, Burst: 1}})
	mux := http.NewServeMux()
	mux.Handle(runtimev1connect.NewRuntimeServiceHandler(runtimev1connect.UnimplementedRuntimeServiceHandler{}))
	s := serve(t, b.door.Wrap(mux))
	for name, option := range map[string]connect.ClientOption{
		"connect": connect.WithProtoJSON(), "grpc": connect.WithGRPC(), "grpc-web": connect.WithGRPCWeb(),
	} {
		c := runtimev1connect.NewRuntimeServiceClient(s.Client(), s.URL, option)
		if _, err := c.GetSession(t.Context(), connect.NewRequest(&runtimev1.GetSessionRequest{})); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
		for range 2 {
			req := connect.NewRequest(&runtimev1.GetSessionRequest{})
			req.Header().Set("Authorization", "Bearer "+b.zed)
			_, err := c.GetSession(t.Context(), req)
			var e *connect.Error
			if errors.As(err, &e) && e.Code() == connect.CodeResourceExhausted && e.Meta().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After in %v", name, e.Meta())
			}
			if code := connect.CodeOf(err); code != connect.CodeResourceExhausted && code != connect.CodeUnimplemented {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestOutageOfTheKeysIsUnavailable(t *testing.T) {
	b := setup(t, DoorOptions{})
	b.ring.err = errors.New("connection to 10.0.0.7 refused")
	s := serve(t, b.door.Wrap(whoami))
	resp, text := get(t, s, "Bearer "+b.acme, "")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || strings.Contains(text, "10.0.0.7") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}
