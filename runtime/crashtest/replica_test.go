//go:build linux

package crashtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// replica is a process of the runtime.
type replica struct {
	trial  *trial
	points []string
	cmd    *exec.Cmd
	dead   chan struct{}
	log    logged
	at     atomic.Pointer[string]
}

// logged keeps the end of what a process says.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is io.Writer's.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 1<<20 {
		l.text.Reset()
	}
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs a replica, with these points armed, each for one death.
func (x *trial) start(points ...string) *replica {
	x.t.Helper()
	r := &replica{trial: x, cmd: exec.Command(x.program, "serve"), dead: make(chan struct{})}
	r.arm(points...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FLYFLEET_") && !strings.HasPrefix(variable, "FLY_") {
			r.cmd.Env = append(r.cmd.Env, variable)
		}
	}
	r.cmd.Env = append(
		r.cmd.Env, "FLYFLEET_DATABASE_URL="+x.url, "FLYFLEET_LISTEN=127.0.0.1:0", "FLYFLEET_LEASE_TTL="+leaseTTL.String(), "FLYFLEET_AGENTS="+x.agents,
		"FLYFLEET_MODEL_SCRIPT="+x.script, "FLYFLEET_MODEL_KEY="+secret, "FLYFLEET_CRASHPOINTS="+x.crashes, "FLYFLEET_LOG_LEVEL=DEBUG",
	)
	r.cmd.Env = append(r.cmd.Env, x.machine.env...)
	r.cmd.Env = append(r.cmd.Env, x.env...)
	r.cmd.Stderr = &r.log
	// It does not outlive the test, however that ends.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.dead)
	}()
	x.t.Cleanup(r.kill)
	x.replicas = append(x.replicas, r)
	x.newest.Store(r)
	return r
}

// arm lets it die at each of these points.
func (r *replica) arm(points ...string) {
	for _, point := range points {
		r.trial.write(filepath.Join(r.trial.crashes, point), "")
	}
	r.points = append(r.points, points...)
}

// leaseTTL is short, so that takeovers are soon.
const leaseTTL = 2 * time.Second

// address is where it serves; "" as long as it does not.
func (r *replica) address() string {
	if at := r.at.Load(); at != nil {
		return *at
	}
	for line := range strings.Lines(r.log.String()) {
		var said struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "serving" {
			r.at.Store(&said.Address)
			return said.Address
		}
	}
	return ""
}

func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	<-r.dead
}

func (r *replica) signal(s syscall.Signal) {
	r.trial.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.trial.t.Fatalf("signal a replica: %v", err)
	}
}

// stop ends it as a platform does, and waits.
func (r *replica) stop() {
	r.trial.t.Helper()
	r.signal(syscall.SIGTERM)
	select {
	case <-r.dead:
	case <-time.After(patience):
		r.trial.t.Errorf("a replica does not stop:\n%s", r.log.String())
		r.kill()
	}
	switch code := r.cmd.ProcessState.ExitCode(); {
	case code == 0:
	case !strings.Contains(r.log.String(), `"msg":"serving"`):
		// It was stopped before it had begun.
	case r.killed() && r.struck():
		kills.Add(1)
	default:
		r.trial.t.Errorf("a stopped replica exits with %d:\n%s", code, r.log.String())
	}
}

// struck says whether a point that was armed for it has been passed: then it is dead, or will be at once.
func (r *replica) struck() bool {
	for _, point := range r.points {
		if _, err := os.Stat(filepath.Join(r.trial.crashes, point)); os.IsNotExist(err) {
			return true
		}
	}
	return false
}

// killed says whether SIGKILL ended it.
func (r *replica) killed() bool {
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// diesOrSettles waits for the death of the replica, or the end of the work, whichever comes first.
func (r *replica) diesOrSettles() (died bool) {
	r.trial.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		select {
		case <-r.dead:
			if !r.killed() {
				r.trial.t.Fatalf("a replica ended by itself:\n%s", r.log.String())
			}
			kills.Add(1)
			return true
		case <-tick.C:
			if r.trial.isIdle() && !r.struck() {
				return false
			}
		case <-deadline:
			r.trial.t.Fatalf("neither died nor settled in time: %v\n%s", r.trial.kinds(), r.log.String())
		}
	}
}
