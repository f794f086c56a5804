package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// replica is one process of the runtime.
type replica struct {
	cmd *exec.Cmd
	log string
	// over is closed when it has ended.
	over chan struct{}
}

// readyLimit bounds the start of a replica.
const readyLimit = 30 * time.Second

// startReplica starts one and waits until it takes requests.
func (c *children) startReplica(ctx context.Context, program, name, address string, more ...string) (*replica, error) {
	r := &replica{log: filepath.Join(c.logs, name+".log"), over: make(chan struct{})}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	r.cmd = exec.Command(program) //nolint:noctx // its end is kill's, which waits for it
	r.cmd.Env = append(append([]string{}, c.env...), append(more, "FLYFLEET_LISTEN="+address)...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C reaches it once, from us
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		_ = r.cmd.Wait() // how it ends is told by who ended it
		log.Close()
		close(r.over)
	}()
	if err := r.ready(ctx, address); err != nil {
		r.kill()
		return nil, fmt.Errorf("%s: %w; the end of %s:\n%s", name, err, r.log, tail(r.log))
	}
	return r, nil
}

func (r *replica) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, errors.New("it does not become ready"))
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if isReady(ctx, address) {
				return nil
			}
		case <-r.over:
			return errors.New("it has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func isReady(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1024))
	return resp.StatusCode == http.StatusOK
}

// kill is SIGKILL: no handler runs, nothing is said to anybody.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // it has ended already, if this fails
	<-r.over
}

// freeAddress is where a replica can listen, and the next one after it.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
