package cp_test

import (
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// door stands before the platform's own, counts the bytes that pass both ways, and shuts when a limit is reached: connections stay, and nothing
// passes any more.
type door struct {
	url     string
	inner   string
	limit   int64
	passed  atomic.Int64
	reached chan struct{}
	once    sync.Once

	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	wait     sync.WaitGroup
	shut     chan struct{}
}

// openDoor makes a door that shuts after so many bytes; 0: never.
func openDoor(t *testing.T, limit int64) *door {
	t.Helper()
	u, err := url.Parse(os.Getenv("FLYFLEET_TRANSPORT"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{inner: u.Host, limit: limit, listener: listener, reached: make(chan struct{}), shut: make(chan struct{})}
	u.Host = listener.Addr().String()
	d.url = u.String()
	d.wait.Go(d.serve)
	t.Cleanup(d.close)
	return d
}

func (d *door) serve() {
	for {
		outer, err := d.listener.Accept()
		if err != nil {
			return
		}
		inner, err := net.Dial("tcp", d.inner)
		if err != nil {
			outer.Close()
			continue
		}
		d.mu.Lock()
		d.open = append(d.open, outer, inner)
		d.mu.Unlock()
		d.wait.Go(func() { d.pass(inner, outer) })
		d.wait.Go(func() { d.pass(outer, inner) })
	}
}

func (d *door) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if d.limit > 0 && d.passed.Add(int64(n)) >= d.limit {
			d.once.Do(func() { close(d.reached) })
			<-d.shut
			return
		} else if d.limit == 0 {
			d.passed.Add(int64(n))
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.shut:
		return
	default:
	}
	close(d.shut)
	_ = d.listener.Close()
	for _, c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.wait.Wait()
	d.mu.Lock()
}
