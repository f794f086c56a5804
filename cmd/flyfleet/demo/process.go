package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/local"
)

// stopGrace is how long an interrupted child may take to end well.
const stopGrace = 30 * time.Second

// children runs other programs in the demo's environment and keeps what they say in log files.
type children struct {
	env  []string
	logs string
	next int
}

func newChildren(logs string, variables []local.Variable, more ...string) *children {
	env := append(os.Environ(), more...)
	for _, v := range variables {
		env = append(env, v.Name+"="+v.Value)
	}
	return &children{env: env, logs: logs}
}

// run gives the program's stdout. An error ends with the last lines that it wrote.
func (c *children) run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	c.next++
	log, err := os.Create(filepath.Join(c.logs, fmt.Sprintf("%02d-%s-%s.log", c.next, filepath.Base(program), label(args))))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, c.env
	cmd.Stdout, cmd.Stderr = &both{&out, log}, log
	// Its own process group, so that Ctrl-C in the terminal reaches it once, from us: at the second one Terraform
	// drops what it is doing without storing its state.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out.Bytes(), fmt.Errorf("%s %s: %w; the end of %s:\n%s", filepath.Base(program), label(args), err, log.Name(), tail(log.Name()))
	}
	return out.Bytes(), err
}

// label is the verb among the arguments.
func label(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			return filepath.Base(a)
		}
	}
	return "run"
}

type both struct {
	memory *bytes.Buffer
	file   *os.File
}

func (b *both) Write(p []byte) (int, error) {
	b.memory.Write(p)
	return b.file.Write(p)
}

const tailBytes = 4000

func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-tailBytes):]))
}
