package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// doorman is a SOCKS5 server that says what it was asked and echoes one line.
type doorman struct{ user, password, target string }

func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		serve(conn)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func (d *doorman) serve(t *testing.T, code byte) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		take := func(n int) []byte {
			b := make([]byte, n)
			if _, err := io.ReadFull(r, b); err != nil {
				t.Errorf("socks: %v", err)
			}
			return b
		}
		head := take(2)
		methods := take(int(head[1]))
		if strings.IndexByte(string(methods), 2) >= 0 {
			_, _ = conn.Write([]byte{5, 2})
			d.user = string(take(int(take(2)[1])))
			d.password = string(take(int(take(1)[0])))
			_, _ = conn.Write([]byte{1, 0})
		} else {
			_, _ = conn.Write([]byte{5, 0})
		}
		request := take(4)
		if request[3] != 3 {
			t.Errorf("the name was resolved before the door: address type %d", request[3])
			return
		}
		d.target = string(take(int(take(1)[0])))
		take(2)
		_, _ = conn.Write([]byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0})
		if code == 0 {
			_, _ = io.Copy(conn, r)
		}
	}
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return c
}

func TestNamesReachTheDoorUnresolvedWithTheirNetwork(t *testing.T) {
	d := &doorman{}
	dial, err := transport.Parse("socks5://" + listen(t, d.serve(t, 0)) + "?network=tenant-net")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(ctx(t), "tcp", "tenant-a.flycast:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if d.target != "tenant-a.flycast" || d.user != "tenant-net" || d.password != "-" {
		t.Fatalf("got %+v", d)
	}
	if _, err := conn.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hi" {
		t.Fatalf("got %q, %v", b, err)
	}
}

func TestRefusalOfTheDoorNamesTargetAndDoor(t *testing.T) {
	d := &doorman{}
	door := listen(t, d.serve(t, 4))
	dial, err := transport.Parse("socks5://" + door)
	if err != nil {
		t.Fatal(err)
	}
	_, err = dial(ctx(t), "tcp", "d890.vm.tenant-a.internal:8080")
	if err == nil || !strings.Contains(err.Error(), "d890.vm.tenant-a.internal:8080") || !strings.Contains(err.Error(), door) || d.user != "" {
		t.Fatalf("got %v, %+v", err, d)
	}
}

func TestCancelEndsADialThatHangs(t *testing.T) {
	release := make(chan struct{})
	door := listen(t, func(net.Conn) { <-release })
	defer close(release)
	dial, err := transport.Parse("socks5://" + door)
	if err != nil {
		t.Fatal(err)
	}
	c, cancel := context.WithCancel(ctx(t))
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := dial(c, "tcp", "x.flycast:8080"); err == nil || c.Err() == nil {
		t.Fatalf("got %v", err)
	}
}

func TestPrivateNamesNeverReachTheHostsResolver(t *testing.T) {
	for _, name := range []string{"a.flycast", "A.FLYCAST", "x.vm.a.internal", "x.internal.", "internal"} {
		_, err := transport.Host()(ctx(t), "tcp", name+":8080")
		if err == nil || !strings.Contains(err.Error(), "FLYFLEET_TRANSPORT") {
			t.Errorf("%s: %v", name, err)
		}
		var lookup *net.DNSError
		if errors.As(err, &lookup) {
			t.Errorf("%s was looked up", name)
		}
	}
	address := listen(t, func(net.Conn) {})
	conn, err := transport.Host()(ctx(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestWrongTransportSaysWhatIsRight(t *testing.T) {
	for _, text := range []string{
		"", "socks4://h:1", "http://h:1", "socks5://h", "socks5://:1", "socks5://u:p@h:1", "socks5://h:1/path",
		"socks5://h:1?net=x", "socks5://door.internal:1", "%zz", "direct?x", "socks5://h:1?network=" + strings.Repeat("n", 256),
	} {
		if _, err := transport.Parse(text); err == nil {
			t.Errorf("%q was accepted", text)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: a password is quoted: %v", text, err)
		}
	}
	for _, text := range []string{"direct", "socks5://127.0.0.1:1080", "socks5://[::1]:1080/?network=n"} {
		if _, err := transport.Parse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
