// Package cp is the verb that copies files and trees between this computer and a machine.
package cp

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/terminal"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/transfer"
)

// Command is `flyfleet cp`.
type Command struct {
	From      string `arg:"" help:"What to copy: APP:PATH, a path here, or - for stdin."`
	To        string `arg:"" help:"Where to: APP:PATH, a path here, or - for stdout."`
	Machine   string `help:"Id of the machine, for an app with several."`
	Recursive bool   `short:"r" help:"Accepted and of no effect: a directory is always copied with what it holds."`
}

// Help is the long help.
func (*Command) Help() string {
	return `One of the two places is on a machine; a relative path there starts at the workspace. TO is the name that the copy gets; one that
ends in "/", "." or ".." is a directory to put it into, under its own name, and so is an existing directory for a single file.
FROM/. is what the directory holds.

Run again after a cut, it goes on: large files continue where a hash proves that what is there is right, and files of equal size and
time are kept. Modes, times (in seconds) and links are kept, owners are not.`
}

var errBoth = errors.New("--json and - for stdout exclude each other: stdout is the file's")

// Run copies.
func (k *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	from, to := transfer.ParsePlace(k.From), transfer.ParsePlace(k.To)
	if err := transfer.Check(from, to); err != nil {
		return &console.Exit{Code: 2, Err: err}
	}
	if to.Stream && c.JSON {
		return &console.Exit{Code: 2, Err: errBoth}
	}
	app := from.App + to.App
	m, err := reach.OpenFiles(ctx, s, app, k.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	bar := newMeter(terminal.Of(c.Err))
	work := transfer.Copy{From: from, To: to, Machine: m.Box, Forget: m.Forget, Stdin: c.In, Stdout: c.Out, Tell: bar.tell}
	report, err := work.Run(ctx)
	bar.clear()
	if ctx.Err() != nil {
		err = fmt.Errorf("interrupted; %w", transfer.ErrAgain)
	} else if err != nil {
		err = m.Explain(err)
	}
	if c.JSON {
		return errors.Join(c.Result(report, nil), err)
	}
	if err == nil && terminal.Of(c.Err) != nil {
		summary(c.Err, report)
	}
	for _, f := range report.Failed {
		if len(report.Failed) > 1 {
			c.Note("flyfleet: %s: %s", transfer.Printable(f.Name), f.Error)
		}
	}
	return err
}

func summary(w io.Writer, r transfer.Report) {
	text := fmt.Sprintf("%d files, %s in %.1f s", r.Files, size(r.Bytes), r.Seconds)
	if r.Resumed > 0 {
		text += fmt.Sprintf("; %s were there from before", size(r.Resumed))
	}
	if r.Kept > 0 {
		text += fmt.Sprintf("; %d were there already", r.Kept)
	}
	fmt.Fprintln(w, text)
}
