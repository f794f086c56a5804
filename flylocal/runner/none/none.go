// Package none is the runner without processes: machines have a life cycle and answers, and nothing behind them. It is
// for scale, and for tests of what clients do.
//
// A command on a machine is answered from a script: the file exec/<digest>.json in the state directory (the digest of
// the machine's image with "-" for ":"), which holds one answer or a list of answers:
//
//	[{"match": "--quiesce", "exit_code": 0, "stdout": "…", "stderr": ""}, {"exit_code": 1, "stderr": "broken"}]
//
// The first answer whose match is empty or equal to one of the command's words is given. Without a script, or where
// no answer matches, the machine answers as a healthy control server's probe does.
package none

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
)

// Answer is one scripted answer to a command.
type Answer struct {
	// Match is a word of the command that the answer is for; empty takes every command.
	Match    string `json:"match,omitempty"`
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// New makes the runner. It works everywhere.
func New(_ context.Context, cfg runner.Config) (runner.Runner, error) {
	return &none{scripts: filepath.Join(cfg.StateDir, "exec")}, nil
}

// Script writes the answers for commands on machines of an image. No answers remove the script.
func Script(stateDir, digest string, answers ...Answer) error {
	path := scriptPath(filepath.Join(stateDir, "exec"), digest)
	if len(answers) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("script: %w", err)
		}
		return nil
	}
	data, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("script: %w", err)
	}
	if err := os.WriteFile(path+".tmp", data, 0o600); err != nil {
		return fmt.Errorf("script: %w", err)
	}
	return os.Rename(path+".tmp", path)
}

func scriptPath(dir, digest string) string {
	return filepath.Join(dir, strings.NewReplacer(":", "-", "/", "-").Replace(digest)+".json")
}

type none struct{ scripts string }

func (*none) Name() string { return "none" }

func (*none) Level() string { return "none" }

func (*none) Close() error { return nil }

func (*none) Cleanup(_ context.Context, dir string) error { return os.RemoveAll(dir) }

func (*none) RemoveVolume(_ context.Context, dir string) error { return os.RemoveAll(dir) }

func (n *none) Start(_ context.Context, spec runner.Spec) (runner.Instance, error) {
	return &instance{runner: n, digest: spec.ImageDigest, epoch: rand.Text(), down: make(chan struct{})}, nil
}

// instance is a machine that is up because it says so.
type instance struct {
	runner *none
	digest string
	epoch  string

	mu      sync.Mutex
	exit    runner.Exit
	ended   bool
	down    chan struct{}
	quiesce time.Time // Until when the probe's door is closed.
}

func (i *instance) Wait() runner.Exit {
	<-i.down
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.exit
}

func (i *instance) end(exit runner.Exit) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return runner.ErrDown
	}
	exit.At = time.Now()
	i.ended, i.exit = true, exit
	close(i.down)
	return nil
}

func (i *instance) check() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return runner.ErrDown
	}
	return nil
}

func (i *instance) Stop(context.Context, string, time.Duration) error {
	return i.end(runner.Exit{Requested: true})
}

func (i *instance) Kill() error {
	return i.end(runner.Exit{Code: 137, Signal: 9, Requested: true})
}

// Signal ends the machine for signals that end a process which does not handle them.
func (i *instance) Signal(signal string) error {
	numbers := map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGKILL": 9, "SIGUSR1": 10, "SIGUSR2": 12, "SIGTERM": 15}
	n, ok := numbers[signal]
	if !ok {
		return i.check()
	}
	return i.end(runner.Exit{Code: 128 + n, Signal: n})
}

func (i *instance) Suspend() error { return i.check() }

func (i *instance) Resume() error { return i.check() }

func (i *instance) Ps(context.Context) ([]runner.Process, error) { return nil, i.noProcess() }

func (i *instance) Dial(context.Context, int) (net.Conn, error) { return nil, i.noProcess() }

func (i *instance) noProcess() error {
	if err := i.check(); err != nil {
		return err
	}
	return runner.ErrNoProcess
}

func (i *instance) Exec(_ context.Context, req runner.ExecRequest) (runner.ExecResult, error) {
	if err := i.check(); err != nil {
		return runner.ExecResult{}, err
	}
	answers, err := i.script()
	if err != nil {
		return runner.ExecResult{}, err
	}
	for _, a := range answers {
		if a.Match == "" || slices.Contains(req.Argv, a.Match) {
			return runner.ExecResult{Code: a.ExitCode, Stdout: []byte(a.Stdout), Stderr: []byte(a.Stderr)}, nil
		}
	}
	return runner.ExecResult{Stdout: append(i.probe(req.Argv), '\n')}, nil
}

const maxScript = 1 << 20

func (i *instance) script() ([]Answer, error) {
	path := scriptPath(i.runner.scripts, i.digest)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || len(data) > maxScript {
		return nil, fmt.Errorf("script %s: unreadable or larger than %d bytes: %w", path, maxScript, err)
	}
	var answers []Answer
	if len(data) > 0 && data[0] == '{' {
		data = append(append([]byte{'['}, data...), ']')
	}
	if err := json.Unmarshal(data, &answers); err != nil {
		return nil, fmt.Errorf("script %s: %w", path, err)
	}
	return answers, nil
}

// probe is the line that a healthy, idle control server prints.
func (i *instance) probe(argv []string) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := ""
	for at, word := range argv {
		value, joined := strings.CutPrefix(word, "--quiesce=")
		switch {
		case word == "--resume":
			asked, i.quiesce = "resumed", time.Time{}
		case word == "--quiesce" && at+1 < len(argv):
			value, joined = argv[at+1], true
		}
		if d, err := time.ParseDuration(value); joined && err == nil {
			asked, i.quiesce = "closed", time.Now().UTC().Add(d)
		}
	}
	line := probeLine{
		Build: "0.1.0", State: "serving", Epoch: i.epoch, Spool: "durable", Quiesce: asked,
	}
	line.Wire.Min, line.Wire.Max = 1, 1
	if time.Now().Before(i.quiesce) {
		line.State, line.QuiescedUntil = "quiesced", i.quiesce.Format(time.RFC3339)
	}
	text, err := json.Marshal(line)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// probeLine is what docs/design/architecture.md calls the probe.
type probeLine struct {
	Wire struct {
		Min int `json:"min"`
		Max int `json:"max"`
	} `json:"wire"`
	Build         string `json:"build"`
	State         string `json:"state"`
	Epoch         string `json:"epoch"`
	Spool         string `json:"spool"`
	Running       int    `json:"running"`
	Quiesce       string `json:"quiesce"`
	QuiescedUntil string `json:"quiesced_until"`
}
