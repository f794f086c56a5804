package cork

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a connection within this computer: who dialled, through wrap, and who was dialled, through the listener that wrapAll makes.
func pair(t *testing.T, wrap func(net.Conn) net.Conn, wrapAll func(net.Listener) net.Listener) (dialler, dialled net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	bare, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dialler = wrap(bare)
	t.Cleanup(func() { _ = dialler.Close() })
	if dialled, err = wrapAll(l).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	for _, end := range []net.Conn{dialler, dialled} {
		if err := end.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return dialler, dialled
}

// corkedPair is a connection through a corked listener: the server's end and the peer's.
func corkedPair(t *testing.T) (net.Conn, *net.TCPConn) {
	t.Helper()
	dialler, dialled := pair(t, func(c net.Conn) net.Conn { return c }, Listener)
	peer, _ := dialler.(*net.TCPConn)
	return dialled, peer
}

// clientPair is a client's end of a connection, with a window for each stream, and its server's.
func clientPair(t *testing.T, window int) (net.Conn, *net.TCPConn) {
	t.Helper()
	dialler, dialled := pair(t, func(c net.Conn) net.Conn { return Conn(c, window) }, func(l net.Listener) net.Listener { return l })
	peer, _ := dialled.(*net.TCPConn)
	return dialler, peer
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

func TestUpdatesOfWindowsGoTogether(t *testing.T) {
	c, peer := clientPair(t, 4000)
	held, sent := false, false
	for range 20 {
		for _, by := range []uint32{300, 300} {
			if _, err := c.Write(append(updateOf(0, by), updateOf(1, by)...)); err != nil {
				t.Fatal(err)
			}
		}
		// On a busy computer the kernel's 200 ms may be over before we look.
		held = held || arrived(t, peer) == 0
		// A quarter of the window: the server must not come to wait for more.
		if _, err := c.Write(updateOf(1, 400)); err != nil {
			t.Fatal(err)
		}
		want := 5 * updateSize
		sent = sent || arrived(t, peer) == want
		if _, err := io.ReadFull(peer, make([]byte, want)); err != nil {
			t.Fatal(err)
		}
	}
	if !held || !sent {
		t.Fatalf("held is %v, sent in time is %v", held, sent)
	}
}

func TestUpdateThatWasHeldGoesWithWhatComesNext(t *testing.T) {
	c, peer := clientPair(t, 1<<20)
	for range 20 {
		for _, frame := range [][]byte{updateOf(1, 300), dataFrame} {
			if _, err := c.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, updateSize+len(dataFrame))
		if _, err := io.ReadFull(peer, got); err != nil || string(got) != string(updateOf(1, 300))+string(dataFrame) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

func TestUpdateAloneArrivesToo(t *testing.T) {
	c, peer := clientPair(t, 1<<20)
	if _, err := c.Write(updateOf(1, 300)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(peer, make([]byte, updateSize)); err != nil {
		t.Fatal(err)
	}
}

func TestReaderOfAFrameSleepsUntilMuchOfItIsThere(t *testing.T) {
	const size, first = 32 << 10, 10
	c, peer := clientPair(t, 1<<20)
	got := make(chan int, 1)
	go func() {
		n, err := c.Read(make([]byte, size))
		if err != nil {
			t.Error(err)
		}
		got <- n
	}()
	waitForReader(t, c)
	if _, err := peer.Write(make([]byte, first)); err != nil {
		t.Fatal(err)
	}
	control(t, c, func(fd int) {
		for there := 0; there < first && len(got) == 0; {
			there, _ = unix.IoctlGetInt(fd, unix.TIOCINQ)
		}
		// What wakes nobody is not told to who asks either.
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 0 || err != nil {
			t.Errorf("a reader is woken for %d bytes of %d: %d, %v", first, size, n, err)
		}
	})
	if _, err := peer.Write(make([]byte, size-first)); err != nil {
		t.Fatal(err)
	}
	if n := <-got; n != size {
		t.Errorf("got %d bytes at once, not %d", n, size)
	}
	if mark := markOf(t, c); mark != 1 {
		t.Errorf("the head of the next frame is awaited for %d bytes", mark)
	}
}

func control(t *testing.T, c net.Conn, do func(fd int)) {
	t.Helper()
	own, _ := c.(*clientConn)
	raw, err := own.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
	if err != nil {
		t.Fatal(err)
	}
}

// markOf is for how many bytes a reader would be woken.
func markOf(t *testing.T, c net.Conn) (mark int) {
	t.Helper()
	control(t, c, func(fd int) {
		var err error
		if mark, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT); err != nil {
			t.Error(err)
		}
	})
	return mark
}

// waitForReader returns when a reader sleeps for more than one byte.
func waitForReader(t *testing.T, c net.Conn) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for markOf(t, c) <= 1 {
		<-tick.C
	}
}

func TestReaderOfAFrameSeesTheConnectionsEnd(t *testing.T) {
	for _, sent := range []int{0, 10} {
		c, peer := clientPair(t, 1<<20)
		done := make(chan error, 1)
		go func() {
			buf := make([]byte, 32<<10)
			n, err := io.ReadFull(c, buf)
			if n != sent {
				t.Errorf("got %d bytes, not %d", n, sent)
			}
			done <- err
		}()
		waitForReader(t, c)
		if _, err := peer.Write(make([]byte, sent)); err != nil {
			t.Fatal(err)
		}
		if err := peer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != io.EOF && err != io.ErrUnexpectedEOF { //nolint:errorlint // as io.ReadFull documents them
			t.Errorf("after %d bytes: %v", sent, err)
		}
	}
}

func TestReaderOfAFrameEndsWithItsDeadline(t *testing.T) {
	c, _ := clientPair(t, 1<<20)
	done := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 32<<10))
		done <- err
	}()
	waitForReader(t, c)
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if mark := markOf(t, c); mark != 1 {
		t.Errorf("the next bytes are awaited until there are %d", mark)
	}
}

func TestConnectionWithinAComputerIsNotPaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dialled.Close() }()
	congestion := func(c net.Conn, set string) (name string) {
		tcp, _ := c.(*net.TCPConn)
		control(t, &clientConn{conn: conn{tcp}}, func(fd int) {
			if set != "" {
				// A kernel without it has nothing to undo.
				_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, set)
			}
			if name, err = unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil {
				t.Error(err)
			}
		})
		return name
	}
	before := congestion(dialled, "bbr")
	Conn(dialled, 1<<20)
	if after := congestion(dialled, ""); after == "bbr" || before != "bbr" && after != before {
		t.Fatalf("%s became %s", before, after)
	}
}
