// Package cat is the verb that prints files of a machine.
package cat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/transfer"
)

// Command is `flyfleet cat`.
type Command struct {
	App     string   `arg:"" help:"App of the tenant."`
	Paths   []string `arg:"" name:"path" help:"Files to print, one after the other; relative ones start at the workspace."`
	Machine string   `help:"Id of the machine, for an app with several."`
}

// Help is the long help.
func (*Command) Help() string {
	return `The bytes of the files, and nothing else, go to stdout. A file that cannot be read is told on stderr, the others are printed, and the
exit code is 1.`
}

var errJSON = errors.New("cat has no JSON form, files are bytes: leave --json out")

// Run prints.
func (k *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	if c.JSON {
		return &console.Exit{Code: 2, Err: errJSON}
	}
	m, err := reach.OpenFiles(ctx, s, k.App, k.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	bad := false
	for _, path := range k.Paths {
		_, err := transfer.Stream(ctx, m.Box, path, c.Out, nil)
		var file *fs.PathError
		switch {
		case err == nil:
		case errors.As(err, &file) && file.Path == path && ctx.Err() == nil:
			bad = true
			c.Note("flyfleet: %s", fmt.Sprintf("%s: %v", transfer.Printable(path), file.Err))
		default:
			return m.Explain(err)
		}
	}
	if bad {
		return &console.Exit{Code: 1}
	}
	return nil
}
