//go:build linux

package replicatest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// replica is a process that runs sessions.
type replica struct {
	t       testing.TB
	name    string
	cmd     *exec.Cmd
	asking  sync.Mutex
	stdin   io.WriteCloser
	answers *bufio.Scanner
	over    chan struct{}
	ended   error
}

// start runs one more replica until the test ends.
func (r *rig) start() *replica {
	r.t.Helper()
	r.started++
	s := r.settings
	s.Name = fmt.Sprintf("replica-%d", r.started)
	s.URL = named(r.t, r.url, s.Name)
	text, err := json.Marshal(s)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &replica{t: r.t, name: s.Name, over: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), "/proc/self/exe")
	p.cmd.Env = append(os.Environ(), settingsEnv+"="+string(text))
	p.cmd.Stderr = r.logs
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	p.cmd.Stdout = in
	err = p.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		r.t.Fatal(err)
	}
	go func() {
		p.ended = p.cmd.Wait()
		close(p.over)
	}()
	r.t.Cleanup(func() {
		p.kill()
		out.Close()
	})
	p.answers = bufio.NewScanner(out)
	p.answers.Buffer(nil, 1<<20)
	if !p.answers.Scan() {
		r.t.Fatalf("%s did not come up\n%s", p.name, r.log())
	}
	r.replicas = append(r.replicas, p)
	return p
}

func (r *rig) startMany(n int) []*replica {
	r.t.Helper()
	var all []*replica
	for range n {
		all = append(all, r.start())
	}
	return all
}

// kill is the end of a process that hears of nothing.
func (p *replica) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.wait()
}

// drain stops it as a deployment does, and waits for it.
func (p *replica) drain() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wait()
	if p.ended != nil {
		p.t.Errorf("%s: %v", p.name, p.ended)
	}
}

func (p *replica) wait() {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(patience):
		p.t.Errorf("%s does not end", p.name)
	}
}

// freeze lets it stand still in the middle of whatever it does; thaw lets it go on, and it knows of nothing.
func (p *replica) freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
}

func (p *replica) thaw() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *replica) signal(s syscall.Signal) {
	p.t.Helper()
	if p.dead() {
		return
	}
	if err := p.cmd.Process.Signal(s); err != nil && !p.dead() {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
}

func (p *replica) dead() bool {
	select {
	case <-p.over:
		return true
	default:
		// Wait may not have told yet.
		return p.state() == "" || p.state() == "Z"
	}
}

// frozen says that it stands still.
func (p *replica) frozen() bool { return p.state() == "T" }

// state is the kernel's letter for the process; "" when there is none.
func (p *replica) state() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

func (p *replica) status() status {
	p.t.Helper()
	return p.ask(request{})
}

// decide allows a card there.
func (p *replica) decide(card uuid.UUID) {
	p.t.Helper()
	if now := p.ask(request{Decide: card}); now.Error != "" {
		p.t.Errorf("decide on %s: %s", p.name, now.Error)
	}
}

func (p *replica) ask(q request) status {
	p.t.Helper()
	p.asking.Lock()
	defer p.asking.Unlock()
	if err := json.NewEncoder(p.stdin).Encode(q); err != nil {
		p.t.Fatalf("ask %s: %v", p.name, err)
	}
	if !p.answers.Scan() {
		p.t.Fatalf("%s has gone: %v", p.name, p.answers.Err())
	}
	var now status
	if err := json.Unmarshal(p.answers.Bytes(), &now); err != nil {
		p.t.Fatalf("%s says %q: %v", p.name, p.answers.Bytes(), err)
	}
	return now
}
