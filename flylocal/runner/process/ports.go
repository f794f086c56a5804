package process

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// ports are those that this runner's machines listen on, or will.
type ports struct {
	mu    sync.Mutex
	taken map[int]bool
}

// take finds a port that is free now and that no machine of this runner has. Another program may still take it
// before the machine does; the machine then fails as it would with any port in use.
func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		port, err := freePort()
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if !p.taken[port] {
			p.taken[port] = true
			return port, nil
		}
	}
}

func (p *ports) release(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, port)
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it neither waits nor stays
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("not TCP")
	}
	return addr.Port, nil
}
