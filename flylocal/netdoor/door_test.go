package netdoor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/proxy"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/netdoor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; nothing is asserted about time below it.
const patience = 20 * time.Second

// world is a platform with apps, which records what was asked of it.
type world struct {
	mu sync.Mutex
	// services by "network/app/port", machines by "network/app".
	services map[string][]netdoor.Service
	machines map[string][]string
	// refuse counts down the dials that are refused, by machine.
	refuse map[string]int
	calls  []string
	// wake fails where it is set.
	wakeErr error
}

func (w *world) record(call ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, strings.Join(call, " "))
}

func (w *world) called(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

func (w *world) Services(_ context.Context, network, app string, port int) ([]netdoor.Service, error) {
	s, ok := w.services[network+"/"+app+"/"+strconv.Itoa(port)]
	if !ok {
		return nil, netdoor.ErrNoName
	}
	return s, nil
}

func (w *world) Machines(_ context.Context, network, app string) ([]string, error) {
	ids, ok := w.machines[network+"/"+app]
	if !ok {
		return nil, netdoor.ErrNoName
	}
	return ids, nil
}

func (w *world) Wake(_ context.Context, app, machine string) error {
	w.record("wake", app, machine)
	return w.wakeErr
}

// Dial connects to something that sends its own name, then what it is sent, and ends when its caller has ended.
func (w *world) Dial(ctx context.Context, app, machine string, port int) (net.Conn, error) {
	w.record("dial", app, machine, strconv.Itoa(port))
	w.mu.Lock()
	w.refuse[machine]--
	refused := w.refuse[machine] >= 0
	w.mu.Unlock()
	if refused {
		return nil, syscall.ECONNREFUSED
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		defer ln.Close()
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := io.WriteString(c, machine+"\n"); err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	var d net.Dialer
	return d.DialContext(ctx, "tcp", ln.Addr().String())
}

func started(id string) netdoor.Service {
	return netdoor.Service{Machine: id, InternalPort: 8080, Started: true, Autostart: true}
}

func cold(id string) netdoor.Service {
	return netdoor.Service{Machine: id, InternalPort: 8080, Wakeable: true, Autostart: true}
}

func with(s netdoor.Service, change func(*netdoor.Service)) netdoor.Service {
	change(&s)
	return s
}

// open serves a door for the test and returns its address.
func open(t *testing.T, w *world, change ...func(*netdoor.Options)) string {
	t.Helper()
	if w.refuse == nil {
		w.refuse = map[string]int{}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := netdoor.Options{Platform: w, Network: "runtime", AcceptTimeout: patience}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- netdoor.New(o).Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

// connect goes through the door with a well-known SOCKS client.
func connect(t *testing.T, door, network, address string) (*net.TCPConn, error) {
	t.Helper()
	var auth *proxy.Auth
	if network != "" {
		auth = &proxy.Auth{User: network, Password: "x"}
	}
	d, err := proxy.SOCKS5("tcp", door, auth, proxy.Direct)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", door)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	tcp, isTCP := conn.(*net.TCPConn)
	over, canOver := d.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
	})
	if !isTCP || !canOver {
		t.Fatal("the SOCKS client has changed")
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = over.DialWithConn(t.Context(), conn, "tcp", address)
	return tcp, err
}

// reach connects and returns the name of the machine that answers. A half-closed connection must go on in the other
// direction.
func reach(t *testing.T, door, network, address string) string {
	t.Helper()
	c, err := connect(t, door, network, address)
	if err != nil {
		t.Fatalf("connect to %s: %v", address, err)
	}
	if _, err := io.WriteString(c, "echoed"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	name, rest, _ := strings.Cut(string(all), "\n")
	if err != nil || rest != "echoed" {
		t.Fatalf("%s sent %q, %v", address, all, err)
	}
	return name
}

func TestFlycastReachesAMachineOnTheAddresssNetwork(t *testing.T) {
	w := &world{services: map[string][]netdoor.Service{"runtime/tenant/8080": {started("m1")}}}
	door := open(t, w)
	for _, network := range []string{"", "runtime"} {
		if got := reach(t, door, network, "tenant.flycast:8080"); got != "m1" {
			t.Errorf("network %q reached %q", network, got)
		}
	}
	if got := reach(t, door, "", "TENANT.Flycast.:8080"); got != "m1" {
		t.Errorf("another spelling reached %q", got)
	}
	if w.called("wake") > 0 {
		t.Error("a started machine was woken")
	}
	// From the tenant's own network the name does not exist, as for one that never was.
	if got := refusal(t, door, "tenant", "tenant.flycast", 8080); got != 4 {
		t.Errorf("another network was answered %d", got)
	}
	if got := refusal(t, door, "runtime", "nobody.flycast", 8080); got != 4 {
		t.Errorf("an unknown app was answered %d", got)
	}
}

func TestColdMachineIsWokenAndWaitedFor(t *testing.T) {
	w := &world{
		services: map[string][]netdoor.Service{"runtime/tenant/8080": {cold("m1")}},
		refuse:   map[string]int{"m1": 3},
	}
	if got := reach(t, open(t, w), "", "tenant.flycast:8080"); got != "m1" {
		t.Errorf("reached %q", got)
	}
	if w.called("wake tenant m1") == 0 || w.called("dial tenant m1 8080") != 4 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestWhoGetsTheConnection(t *testing.T) {
	cordoned := func(s *netdoor.Service) { s.Cordoned = true }
	failing := func(s *netdoor.Service) { s.Failing = true }
	manual := func(s *netdoor.Service) { s.Autostart = false }
	changing := func(s *netdoor.Service) { s.Started, s.Wakeable = false, false }
	for _, c := range []struct {
		name     string
		services []netdoor.Service
		want     string // "" is a refusal with code 5
	}{
		{"none has the service", nil, ""},
		{"started before cold", []netdoor.Service{cold("a"), started("b")}, "b"},
		{"healthy before failing", []netdoor.Service{with(started("a"), failing), started("b")}, "b"},
		{"failing before waking another", []netdoor.Service{cold("a"), with(started("b"), failing)}, "b"},
		{"cordoned gets none", []netdoor.Service{with(started("a"), cordoned)}, ""},
		{"cordoned is not woken", []netdoor.Service{with(cold("a"), cordoned)}, ""},
		{"cordoned is passed over", []netdoor.Service{with(started("a"), cordoned), cold("b")}, "b"},
		{"one is woken, not two", []netdoor.Service{cold("a"), cold("b")}, "a"},
		{"no autostart, no waking", []netdoor.Service{with(cold("a"), manual)}, ""},
		{"no autostart matters only when cold", []netdoor.Service{with(started("a"), manual)}, "a"},
		{"a machine in between is not waited for", []netdoor.Service{with(started("a"), changing)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{services: map[string][]netdoor.Service{"runtime/tenant/80": c.services}}
			door := open(t, w)
			if c.want == "" {
				if got := refusal(t, door, "", "tenant.flycast", 80); got != 5 {
					t.Errorf("answered %d", got)
				}
				if len(w.calls) > 0 {
					t.Errorf("yet it called %q", w.calls)
				}
				return
			}
			if got := reach(t, door, "", "tenant.flycast:80"); got != c.want {
				t.Errorf("reached %q", got)
			}
			for _, call := range w.calls {
				if !strings.Contains(call, " "+c.want) {
					t.Errorf("also %q", call)
				}
			}
		})
	}
}

func TestMachineThatCannotStartIsToldAtOnce(t *testing.T) {
	w := &world{
		services: map[string][]netdoor.Service{"runtime/tenant/80": {cold("a")}},
		wakeErr:  errors.New("412 no room"),
	}
	if got := refusal(t, open(t, w), "", "tenant.flycast", 80); got != 5 {
		t.Errorf("answered %d", got)
	}
	if w.called("wake") != 1 || w.called("dial") != 0 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestMachineThatNeverAcceptsTimesOut(t *testing.T) {
	w := &world{
		services: map[string][]netdoor.Service{"runtime/tenant/80": {started("a")}},
		refuse:   map[string]int{"a": 1 << 30},
	}
	door := open(t, w, func(o *netdoor.Options) { o.AcceptTimeout = 100 * time.Millisecond })
	if got := refusal(t, door, "", "tenant.flycast", 80); got != 6 {
		t.Errorf("answered %d", got)
	}
	if w.called("dial") < 2 {
		t.Error("it gave up after one attempt")
	}
}

func TestInternalNamesReachStartedMachinesOfTheirNetwork(t *testing.T) {
	w := &world{
		machines: map[string][]string{"tenant/tenant": {"m1", "m2"}, "tenant/empty": {}},
		refuse:   map[string]int{"m2": 1 << 30},
	}
	door := open(t, w)
	if got := reach(t, door, "tenant", "m1.vm.tenant.internal:22"); got != "m1" {
		t.Errorf("reached %q", got)
	}
	if w.called("dial tenant m1 22") != 1 {
		t.Errorf("calls: %q", w.calls)
	}
	// Any machine that accepts will do.
	if got := reach(t, door, "tenant", "tenant.internal:22"); got != "m1" {
		t.Errorf("reached %q", got)
	}
	for host, want := range map[string]byte{
		"m2.vm.tenant.internal": 5, // up, but nothing listens: no patience on a direct address
		"m3.vm.tenant.internal": 4, "empty.internal": 4, "other.internal": 4,
	} {
		if got := refusal(t, door, "tenant", host, 22); got != want {
			t.Errorf("%s was answered %d, not %d", host, got, want)
		}
	}
	if got := refusal(t, door, "runtime", "m1.vm.tenant.internal", 22); got != 4 {
		t.Errorf("another network was answered %d", got)
	}
	if w.called("wake") > 0 {
		t.Error(".internal woke a machine")
	}
}

func TestNothingElseIsReached(t *testing.T) {
	w := &world{
		services: map[string][]netdoor.Service{"runtime/tenant/80": {started("m1")}},
		machines: map[string][]string{"runtime/tenant": {"m1"}},
	}
	door := open(t, w)
	for _, host := range []string{
		"127.0.0.1", "::1", "fdaa::1", "localhost", "example.com", "flycast", ".flycast", "a.b.flycast", "internal",
		"x.vm.internal", "m1.vm.tenant.internal.example.com", "m1.xx.tenant.internal", "a b.flycast", "tenant.flycast..",
		strings.Repeat("a", 64) + ".flycast", "tenant.flycast\x00",
	} {
		if got := refusal(t, door, "", host, 80); got != 2 {
			t.Errorf("%q was answered %d", host, got)
		}
	}
	if len(w.calls) > 0 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestClosingTheDoorBreaksOpenConnections(t *testing.T) {
	w := &world{services: map[string][]netdoor.Service{"runtime/tenant/80": {started("m1")}}, refuse: map[string]int{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- netdoor.New(netdoor.Options{Platform: w, Network: "runtime"}).Serve(ctx, ln)
	}()
	c, err := connect(t, ln.Addr().String(), "", "tenant.flycast:80")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stayed open")
	}
}
