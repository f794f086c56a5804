package remote_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// far is a way to a machine that takes a time each way. What is under way does not wait for what is before it.
type far struct {
	oneWay time.Duration
	dial   func(ctx context.Context) (net.Conn, error)

	listener net.Listener
	all      sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newFar(t testing.TB, oneWay time.Duration, dial func(context.Context) (net.Conn, error)) *far {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &far{oneWay: oneWay, dial: dial, listener: l}
	f.all.Go(f.accept)
	t.Cleanup(f.close)
	return f
}

func (f *far) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		beyond, err := f.dial(context.Background())
		if err != nil {
			_ = near.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, near, beyond)
		f.mu.Unlock()
		f.all.Go(func() { f.carry(near, beyond) })
		f.all.Go(func() { f.carry(beyond, near) })
	}
}

type parcel struct {
	data []byte
	due  time.Time
}

// carry moves bytes one way until either end is gone, then closes both.
func (f *far) carry(to, from net.Conn) {
	parcels := make(chan parcel, 1024)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(parcels)
		for {
			buf := make([]byte, 64<<10)
			n, err := from.Read(buf)
			if n > 0 {
				parcels <- parcel{buf[:n], time.Now().Add(f.oneWay)}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range parcels {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
	for range parcels { //nolint:revive // the reader ends when its place is free
	}
	reader.Wait()
}

func (f *far) close() {
	_ = f.listener.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.all.Wait()
}

// connect is the way through it, for a client.
func (f *far) connect(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", f.listener.Addr().String())
}
