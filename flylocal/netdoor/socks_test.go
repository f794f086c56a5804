package netdoor_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/netdoor"
)

// refusal makes a raw request and returns the code of the answer; 0 is a success.
func refusal(t *testing.T, door, network, host string, port int) byte {
	t.Helper()
	return raw(t, door, network, request(1, host, port))
}

func request(command byte, host string, port int) []byte {
	b := []byte{5, command, 0}
	if ip, err := netip.ParseAddr(host); err == nil {
		kind := byte(1)
		if ip.Is6() {
			kind = 4
		}
		b = append(append(b, kind), ip.AsSlice()...)
	} else {
		b = append(append(b, 3, byte(len(host))), host...)
	}
	return binary.BigEndian.AppendUint16(b, uint16(port))
}

func raw(t *testing.T, door, network string, request []byte) byte {
	t.Helper()
	c, err := net.Dial("tcp", door)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	send := func(b []byte, answer int) []byte {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, answer)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("after %x: %v", b, err)
		}
		return got
	}
	if network == "" {
		if got := send([]byte{5, 1, 0}, 2); !bytes.Equal(got, []byte{5, 0}) {
			t.Fatalf("the greeting was answered %x", got)
		}
	} else {
		if got := send([]byte{5, 2, 0, 2}, 2); !bytes.Equal(got, []byte{5, 2}) {
			t.Fatalf("the greeting was answered %x", got)
		}
		// An empty password is one as well.
		if got := send(append(append([]byte{1, byte(len(network))}, network...), 0), 2); !bytes.Equal(got, []byte{1, 0}) {
			t.Fatalf("the user name was answered %x", got)
		}
	}
	answer := send(request, 10)
	if answer[0] != 5 || answer[2] != 0 || answer[3] != 1 {
		t.Fatalf("a malformed answer: %x", answer)
	}
	return answer[1]
}

func TestOtherCommandsAndAddressTypesAreRefused(t *testing.T) {
	door := open(t, &world{services: map[string][]netdoor.Service{"runtime/tenant/80": {started("m1")}}})
	for command, want := range map[byte]byte{1: 0, 2: 7, 3: 7, 9: 7} {
		if got := raw(t, door, "", request(command, "tenant.flycast", 80)); got != want {
			t.Errorf("command %d was answered %d, not %d", command, got, want)
		}
	}
	if got := raw(t, door, "", []byte{5, 1, 0, 2, 0, 0}); got != 8 {
		t.Errorf("an unknown address type was answered %d", got)
	}
}

func TestClientWithoutAKnownMethodIsToldSo(t *testing.T) {
	c, err := net.Dial("tcp", open(t, &world{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte{5, 1, 1}); err != nil { // GSSAPI only
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, []byte{5, 0xff}) {
		t.Errorf("answered %x, %v", got, err)
	}
}

// FuzzHandshake feeds bytes to the door: it must neither crash nor reach a machine by accident, and go on serving.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte{5, 1, 0, 5, 1, 0, 3, 1, 'a', 0, 80})
	f.Add([]byte{5, 1, 2, 1, 3, 'n', 'e', 't', 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80})
	f.Add([]byte{4, 1, 0, 80, 127, 0, 0, 1, 0})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		w := &world{}
		c, err := net.Dial("tcp", open(t, w))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(sent)
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			t.Fatal("not TCP")
		}
		_ = tcp.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		if len(w.calls) > 0 {
			t.Errorf("%x led to %q", sent, w.calls)
		}
	})
}
