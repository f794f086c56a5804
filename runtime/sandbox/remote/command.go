package remote

import (
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// specify fills a command in and says how the wire calls it. source is input that has to be fed beside.
func (s *Sandbox) specify(command sandbox.Command) (sandbox.Command, *wirev1.ExecSpec, io.Reader, error) {
	wrong := func(what string) error { return fmt.Errorf("command: %s: %w", what, syscall.EINVAL) }
	switch {
	case command.ID == "" && s.once != "":
		command.ID = s.once
	case command.ID == "":
		id, err := wire.NewID()
		if err != nil {
			return command, nil, nil, err
		}
		command.ID = id
	}
	if _, err := wire.IDTime(command.ID); err != nil {
		return command, nil, nil, wrong("its id is " + err.Error())
	}
	if command.Interactive && command.Stdin != nil {
		return command, nil, nil, wrong("it has both input and is interactive")
	}
	if command.Timeout < 0 || command.Unattended < 0 || command.TermGrace < 0 || command.MaxOutput < 0 {
		return command, nil, nil, wrong("a limit is negative")
	}
	spec := &wirev1.ExecSpec{
		Cwd: []byte(join(s.dir, command.Dir)), MergeStderr: command.MergeStderr,
		WallTimeoutMs: millis(command.Timeout), UnattendedTimeoutMs: millis(command.Unattended), TermGraceMs: millis(command.TermGrace),
		StdoutCapBytes: uint64(command.MaxOutput), StderrCapBytes: uint64(command.MaxOutput),
	}
	for _, a := range command.Argv {
		spec.Argv = append(spec.Argv, []byte(a))
	}
	var err error
	if spec.Env, err = variables(command.Env); err != nil {
		return command, nil, nil, err
	}
	if spec.SecretEnv, err = variables(command.SecretEnv); err != nil {
		return command, nil, nil, err
	}
	if t := command.Terminal; t != nil {
		spec.Pty = &wirev1.Pty{Cols: uint32(t.Cols), Rows: uint32(t.Rows)}
	}
	var source io.Reader
	if spec.Stdin, source = input(command.Stdin, nil, 0, false); command.Interactive {
		spec.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE}
	}
	if err := wire.CheckSpec(spec); err != nil {
		return command, nil, nil, fmt.Errorf("command: %w: %w", syscall.EINVAL, err)
	}
	return command, spec, source, nil
}

// variables are NAME=value pairs; of two with one name the last holds, as with os/exec.
func variables(env []string) ([]*wirev1.EnvVar, error) {
	var out []*wirev1.EnvVar
	at := map[string]int{}
	for i, pair := range env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("command: environment entry %d has no '=': %w", i, syscall.EINVAL)
		}
		v := &wirev1.EnvVar{Name: []byte(name), Value: []byte(value)}
		if j, again := at[name]; again {
			out[j] = v
			continue
		}
		at[name] = len(out)
		out = append(out, v)
	}
	return out, nil
}

// millis rounds up, so that the shortest limit stays one.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
