package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// mostCollected is what Exec collects of a stream when the command does not say.
const mostCollected = 16 << 20

// Exec runs a command to its end.
func (s *Sandbox) Exec(ctx context.Context, spec sandbox.Command) (sandbox.Result, error) {
	collect := cmp.Or(spec.MaxOutput, mostCollected)
	// The oldest bytes are wanted: they must be kept until they are collected.
	c, err := s.run(ctx, spec, max(collect, mostOutput))
	if err != nil {
		return sandbox.Result{}, err
	}
	result := sandbox.Result{}
	into := map[sandbox.Stream]*[]byte{sandbox.Stdout: &result.Stdout, sandbox.Stderr: &result.Stderr}
	take := func(o sandbox.Output) error {
		b := into[o.Stream]
		// After a gap nothing is one of the first bytes.
		if int64(len(*b)) == o.Offset {
			*b = append(*b, o.Data[:min(int64(len(o.Data)), collect-int64(len(*b)))]...)
		}
		return nil
	}
	result.Exit, err = c.follow(ctx, sandbox.Offsets{}, take)
	if err == nil || ctx.Err() == nil {
		return result, err
	}
	c.end(sandbox.CauseSignalled)
	from := sandbox.Offsets{Stdout: int64(len(result.Stdout)), Stderr: int64(len(result.Stderr))}
	// It ends within the grace: KILL is not refused.
	var late error
	result.Exit, late = c.follow(context.WithoutCancel(ctx), from, take)
	return result, errors.Join(err, late)
}

// Start returns once the command has a process, or is known never to get one.
func (s *Sandbox) Start(ctx context.Context, spec sandbox.Command) (sandbox.Process, error) {
	c, err := s.run(ctx, spec, cmp.Or(spec.MaxOutput, mostOutput))
	if err != nil {
		return nil, err
	}
	return process{s, c}, nil
}

// Attach finds a command that was started.
func (s *Sandbox) Attach(ctx context.Context, id string) (sandbox.Process, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	e := s.ledger.find(id)
	if e == nil || e.command == nil {
		return nil, sandbox.ErrUnknown
	}
	select {
	case <-e.command.started:
		return process{s, e.command}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Forbid makes an id one that never starts.
func (s *Sandbox) Forbid(ctx context.Context, id string) (bool, error) {
	if err := ended(ctx); err != nil {
		return false, err
	}
	return s.ledger.forbid(id)
}

// run finds the command of an id, or starts it.
func (s *Sandbox) run(ctx context.Context, spec sandbox.Command, kept int64) (*command, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := check(spec); err != nil {
		return nil, err
	}
	switch {
	case spec.ID == "" && s.once == "":
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("name a command: %w", err)
		}
		spec.ID = id.String()
	case spec.ID == "":
		spec.ID = s.once
	case s.once != "" && s.once != spec.ID:
		return nil, fmt.Errorf("a command with an id on a view with another: %w", syscall.EINVAL)
	}
	if spec.IfEpoch != "" && spec.IfEpoch != s.epoch && s.ledger.find(spec.ID) == nil {
		return nil, &sandbox.LostError{ID: spec.ID, Reason: "the computer's life in which it was to run is over"}
	}
	c := s.newCommand(spec, kept)
	c.limits = newLimits(spec)
	e, mine, err := s.ledger.claimCommand(spec.ID, sum(s.tell(spec)), c, s.spool)
	if err != nil {
		return nil, err
	}
	if mine {
		c.launch(s.order(spec))
		return c, nil
	}
	select {
	case <-e.command.started:
		return e.command, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tell tells one command from another. Of secrets the names count, of ids nothing.
func (s *Sandbox) tell(spec sandbox.Command) func(*digest) {
	return func(d *digest) {
		d.words("Command", s.order(spec).dir, fmt.Sprint(len(spec.Argv), len(spec.Env), len(spec.SecretEnv), spec.Stdin != nil))
		d.words(spec.Argv...)
		d.words(spec.Env...)
		for _, line := range spec.SecretEnv {
			name, _, _ := strings.Cut(line, "=")
			d.words(name)
		}
		d.bytes(spec.Stdin)
		d.words(fmt.Sprint(spec.Interactive, spec.MergeStderr, spec.Timeout, spec.Unattended, spec.TermGrace, spec.MaxOutput))
		if spec.Terminal != nil {
			d.words(fmt.Sprint(*spec.Terminal))
		}
	}
}

// check refuses what no computer could run.
func check(spec sandbox.Command) error {
	wrong := ""
	switch {
	case len(spec.Argv) == 0 || spec.Argv[0] == "":
		wrong = "no program"
	case spec.Interactive && spec.Stdin != nil:
		wrong = "an open stdin with content"
	case strings.IndexByte(spec.Dir, 0) >= 0:
		wrong = "a NUL in the directory"
	case spec.Timeout < 0 || spec.Unattended < 0 || spec.TermGrace < 0 || spec.MaxOutput < 0:
		wrong = "a negative limit"
	}
	for _, arg := range spec.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			wrong = "a NUL in an argument"
		}
	}
	for _, list := range [][]string{spec.Env, spec.SecretEnv} {
		for _, line := range list {
			if strings.IndexByte(line, 0) >= 0 || strings.Index(line, "=") < 1 {
				wrong = "an environment line that is not NAME=value"
			}
		}
	}
	if wrong != "" {
		return fmt.Errorf("a command with %s: %w", wrong, syscall.EINVAL)
	}
	return nil
}
