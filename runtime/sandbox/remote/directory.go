package remote

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Mkdir makes a directory.
func (s *Sandbox) Mkdir(ctx context.Context, name string, options sandbox.MkdirOptions) error {
	mode := options.Mode.Perm()
	if mode == 0 {
		mode = 0o755
	}
	script := mkdirScript
	if options.Parents {
		script = mkdirsScript
	}
	return s.change(ctx, "mkdir", name, script, yes(options.Parents), octal(mode))
}

// Remove removes what a name says.
func (s *Sandbox) Remove(ctx context.Context, name string, options sandbox.RemoveOptions) error {
	return s.change(ctx, "remove", name, removeScript, yes(options.Recursive), yes(options.Force), s.dir)
}

// change runs a script that answers with a status alone.
func (s *Sandbox) change(ctx context.Context, op, name string, script script, args ...string) error {
	o, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	if err := checkName(name); err != nil {
		return o.about(name, err)
	}
	answer, err := o.run(ctx, job{script: script, dir: o.start(name), args: append([]string{spell(name)}, args...)})
	if err == nil {
		_, _, err = statusOf(answer)
	}
	return o.about(name, err)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func octal(mode fs.FileMode) string { return fmt.Sprintf("%o", mode.Perm()) }
