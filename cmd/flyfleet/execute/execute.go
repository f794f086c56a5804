// Package execute is the verb that runs one command on a machine, like a shell would.
package execute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// ownFailure is the exit code when the command's own code is not known.
const ownFailure = 125

// Command is `flyfleet exec`.
type Command struct {
	App     string            `arg:"" help:"App of the tenant."`
	Argv    []string          `arg:"" name:"command" help:"Command and arguments; put -- before them."`
	Machine string            `help:"Id of the machine, for an app with several."`
	Cwd     string            `help:"Directory to run in. Default: the workspace."`
	Env     map[string]string `help:"Environment variable NAME=value for the command; may be repeated." mapsep:"none"`
	Timeout time.Duration     `help:"Send TERM to the command after this much time."`
	Wait    time.Duration     `default:"60s" help:"How long to wait while the machine is swapped, stopping or full."`
}

// Help is the long help.
func (*Command) Help() string {
	return `stdout and stderr are the command's. The exit code is the command's too; 128 + n when signal n ended it; 125 when flyfleet
itself failed or the machine cannot tell how the command ended, with the cause on stderr.

Interrupting sends TERM to the command and waits for its end.`
}

// Run runs the command and ends with its code.
func (e *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	sink := newSink(c)
	machine, result, err := e.run(ctx, s, sink)
	if err != nil {
		return &console.Exit{Code: ownFailure, Err: err}
	}
	code, note := verdict(result)
	if note != "" {
		c.Note("flyfleet: %s", note)
	}
	if c.JSON {
		if err := sink.report(c, e.App, machine, result, code); err != nil {
			return &console.Exit{Code: ownFailure, Err: err}
		}
	}
	if code != 0 {
		return &console.Exit{Code: code}
	}
	return nil
}

func (e *Command) run(ctx context.Context, s *settings.Settings, sink client.Sink) (string, client.Result, error) {
	api, err := s.Platform()
	if err != nil {
		return "", client.Result{}, err
	}
	defer api.Close()
	key, err := s.Key()
	if err != nil {
		return "", client.Result{}, err
	}
	dial, err := s.Dial()
	if err != nil {
		return "", client.Result{}, err
	}
	machine, address, err := e.target(ctx, api)
	if err != nil {
		return "", client.Result{}, err
	}
	scope := settings.Scope(key)
	wc, err := client.New(client.Options{
		Address: address, Dial: dial, Scope: scope,
		Tokens: client.SignWith(key, e.App, machine, scope, scope),
	})
	if err != nil {
		return machine, client.Result{}, err
	}
	defer wc.Close()
	if e.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, e.Timeout, fmt.Errorf("the time given by --timeout (%s) is over", e.Timeout))
		defer stop()
	}
	result, err := wc.Run(ctx, client.Command{
		Spec:   e.spec(),
		Follow: client.Follow{Wait: e.Wait, TermOnCancel: true},
	}, sink)
	if err != nil {
		return machine, result, fmt.Errorf("machine %s of app %s: %w%s", machine, e.App, err, advice(err, result))
	}
	return machine, result, nil
}

func (e *Command) spec() *wirev1.ExecSpec {
	spec := &wirev1.ExecSpec{Cwd: []byte(e.Cwd)}
	for _, a := range e.Argv {
		spec.Argv = append(spec.Argv, []byte(a))
	}
	for k, v := range e.Env {
		spec.Env = append(spec.Env, &wirev1.EnvVar{Name: []byte(k), Value: []byte(v)})
	}
	return spec
}

// target finds the machine and where it is reached: by flycast, which wakes it, unless the app has several.
func (e *Command) target(ctx context.Context, api *flyapi.Client) (id, address string, err error) {
	all, err := api.ListMachines(ctx, e.App)
	if flyapi.IsNotFound(err) {
		return "", "", fmt.Errorf("there is no app %s: flyfleet machines lists what there is", e.App)
	}
	if err != nil {
		return "", "", err
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
		if m.ID == e.Machine {
			id = m.ID
		}
	}
	port := strconv.Itoa(wire.ControlPort)
	switch {
	case len(all) == 0:
		return "", "", fmt.Errorf("app %s has no machine", e.App)
	case e.Machine != "" && id == "":
		return "", "", fmt.Errorf("app %s has no machine %s, but %s", e.App, e.Machine, strings.Join(ids, ", "))
	case len(all) == 1:
		return all[0].ID, net.JoinHostPort(e.App+".flycast", port), nil
	case id == "":
		return "", "", fmt.Errorf("app %s has %d machines; choose one with --machine: %s", e.App, len(all), strings.Join(ids, ", "))
	}
	return id, net.JoinHostPort(id+".vm."+e.App+".internal", port), nil
}

// verdict is the exit code as a shell would see it, and what to tell a person besides.
func verdict(r client.Result) (code int, note string) {
	switch {
	case r.Lost != nil:
		return ownFailure, fmt.Sprintf("the machine cannot tell how the command ended (%s); it may have run", word(r.Lost.GetReason().String(), "LOST_REASON_"))
	case r.Exit == nil:
		return ownFailure, "the machine did not say how the command ended"
	}
	code = int(r.Exit.GetCode())
	if n := int(r.Exit.GetSignal()); n != 0 {
		code = 128 + n
	}
	switch r.Exit.GetCause() {
	case wirev1.ExitCause_EXIT_CAUSE_EXITED, wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT:
	default:
		note = "the command ended by " + word(r.Exit.GetCause().String(), "EXIT_CAUSE_")
		if m := r.Exit.GetMessage(); m != "" {
			note += ": " + m
		}
	}
	for _, g := range r.Gaps {
		note = strings.TrimPrefix(note+fmt.Sprintf("; the machine did not keep part of its %s", word(g.GetStream().String(), "STREAM_")), "; ")
	}
	return code, note
}

func word(enum, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(enum, prefix)), "_", " ")
}

// advice names what to look at next.
func advice(err error, r client.Result) string {
	var refused *wire.Error
	switch {
	case errors.As(err, &refused) && refused.Reason == wirev1.ErrorReason_ERROR_REASON_TOKEN:
		return "; is the root of " + settings.SigningKey + " in the machine's FLYFLEET_TRUST?"
	case errors.As(err, &refused), errors.Is(err, context.Canceled):
		return ""
	case r.Started != nil:
		return "; the command may still run as exec " + r.ID
	}
	return "; flyfleet machines shows the machine's state"
}
