package cork

import (
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// corkedPair is a connection through a corked listener: the server's end and the peer's.
func corkedPair(t *testing.T) (net.Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	c, err := Listener(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := dialled.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	peer, _ := dialled.(*net.TCPConn)
	return c, peer
}

// arrived is how many bytes wait to be read.
func arrived(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		t.Fatal(err)
	}
	return n
}

var (
	headersFrame = []byte{0, 0, 4, 1, 4, 0, 0, 0, 1, 0x88, 0xc2, 0xc1, 0xbe}
	dataFrame    = []byte{0, 0, 2, 0, 0, 0, 0, 0, 1, 'h', 'i'}
)

func TestHeadersGoWithTheFirstMessage(t *testing.T) {
	server, peer := corkedPair(t)
	held := false
	// On a busy computer the kernel's 200 ms may be over before we look.
	for range 20 {
		if _, err := server.Write(headersFrame); err != nil {
			t.Fatal(err)
		}
		held = held || arrived(t, peer) == 0
		if _, err := server.Write(dataFrame); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(headersFrame)+len(dataFrame))
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != string(headersFrame)+string(dataFrame) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if !held {
		t.Fatal("headers went out alone")
	}
}

func TestHeadersWithoutAMessageArriveToo(t *testing.T) {
	server, peer := corkedPair(t)
	if _, err := server.Write(headersFrame); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(peer, make([]byte, len(headersFrame))); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyWhatIsGoneOnWithIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		held  bool
	}{
		"headers":           {headersFrame, true},
		"trailers":          {[]byte{0, 0, 1, 1, 5, 0, 0, 0, 1, 0xbf}, false},
		"more headers come": {[]byte{0, 0, 1, 1, 0, 0, 0, 0, 1, 0xbf}, false},
		"data":              {dataFrame, false},
		"headers and data":  {append(append([]byte{}, headersFrame...), dataFrame...), false},
		"part of a frame":   {headersFrame[:12], false},
		"HTTP/1.1":          {[]byte("HTTP/1.1 200 OK\r\n\r\n"), false},
		"nothing":           {nil, false},
	} {
		if moreComes(c.frame) != c.held {
			t.Errorf("%s: held is %v", name, !c.held)
		}
	}
}
