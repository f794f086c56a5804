// Package logs is the verb that shows the output of an exec.
package logs

import (
	"context"
	"errors"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Command is `flyfleet logs`.
type Command struct {
	App        string  `arg:"" help:"App of the tenant."`
	ID         string  `arg:"" help:"Id of the exec: flyfleet ps lists them."`
	Machine    string  `help:"Id of the machine, for an app with several."`
	From       uint64  `default:"0" help:"First byte of each stream to show; 0 is the beginning."`
	FromStderr *uint64 `help:"First byte of stderr, where it differs."`
	Follow     bool    `short:"f" help:"Go on until the command ends."`
}

// Help is the long help.
func (*Command) Help() string {
	return `The command's stdout goes to stdout and its stderr to stderr, byte for byte. What the machine did not keep, and how the
command ended otherwise than by itself, is told on stderr. The exit code is 0 whatever the command's was; flyfleet exec --attach
ends with the command's own.`
}

var errJSON = errors.New("logs has no JSON form, output is bytes: leave --json out")

// Run shows.
func (l *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	if c.JSON {
		return errJSON
	}
	m, err := reach.Open(ctx, s, l.App, l.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	from := &wirev1.Offsets{Stdout: l.From, Stderr: l.From}
	if l.FromStderr != nil {
		from.Stderr = *l.FromStderr
	}
	sink := &sink{Sink: client.Writers(c.Out, c.Err), console: c}
	result, err := m.Attach(ctx, l.ID, client.Follow{From: from, Once: !l.Follow}, sink)
	if err != nil {
		return m.Failed(err, l.ID, result.Started != nil)
	}
	if result.Exit == nil && result.Lost == nil {
		return nil
	}
	result.Gaps = nil // told where they stood
	if _, note := ending.Verdict(result); note != "" {
		c.Note("flyfleet: %s", note)
	}
	return nil
}

// sink passes bytes through and tells of gaps where they stand.
type sink struct {
	client.Sink
	console *console.Console
}

func (s *sink) Gap(g *wirev1.Gap) error {
	s.console.Note("flyfleet: %s", ending.Gap(g))
	return nil
}
