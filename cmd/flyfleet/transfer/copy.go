package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Copy is one copy between this computer and a machine.
type Copy struct {
	From, To Place
	// Machine is the one that the place with an App names. Copies leave nothing on it but what they copied, and, when they fail, part files.
	Machine sandbox.Sandbox
	// Forget is told the ids of commands that have ended on the machine. It must not wait.
	Forget func(id string)
	// Stdin and Stdout are what "-" means.
	Stdin  io.Reader
	Stdout io.Writer
	// Tell hears how many bytes of content are done, of how many; 0 when nobody can know. Nil hears nothing.
	Tell func(done, total int64)
}

// ErrAgain goes with errors after which the same copy, run again, goes on where this one stopped.
var ErrAgain = errors.New("run the same again and it goes on from here")

// Check refuses places that cannot be copied between, before anything is asked of anybody.
func Check(from, to Place) error {
	switch {
	case from.App != "" && to.App != "":
		return errors.New("one of the two places must be on this computer: copy by way of a file here, or with flyfleet cp A - | flyfleet cp - B")
	case from.App == "" && to.App == "":
		return errors.New("neither place is on a machine: write it as APP:PATH")
	case from.Path == "" && !from.Stream, to.Path == "" && !to.Stream:
		return errors.New("a path is empty")
	case from.Stream && to.inside():
		return fmt.Errorf("what comes from stdin needs a file's name, not the directory %s", to.Path)
	}
	return nil
}

// Run copies. The report is of use beside an error too.
func (c *Copy) Run(ctx context.Context) (Report, error) {
	begin := time.Now()
	r := Report{From: c.From.String(), To: c.To.String()}
	err := Check(c.From, c.To)
	if err == nil {
		e := &engine{report: &r, tell: c.Tell, tag: sumOf([]byte(c.From.String() + "\x00" + c.To.String()))[:24]}
		switch {
		case c.From.Stream:
			err = c.fromStream(ctx, e)
		case c.To.Stream:
			err = c.toStream(ctx, e)
		default:
			err = c.between(ctx, e)
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = r.Err()
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, err
}

// between copies a file or a tree.
func (c *Copy) between(ctx context.Context, e *engine) error {
	is, err := c.stat(ctx, c.From)
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, bare(err))
	}
	target := c.To
	target.Path = c.To.target(c.From)
	switch is.kind {
	case directory:
		return c.tree(ctx, e, target)
	case file:
		return c.file(ctx, e, is, target)
	}
	return fmt.Errorf("%s: %w", c.From, errSpecial)
}

func (c *Copy) tree(ctx context.Context, e *engine, target Place) error {
	at, err := c.stat(ctx, target)
	switch {
	case gone(err):
		err = c.mkdir(ctx, target)
	case err == nil && at.kind != directory:
		err = syscall.ENOTDIR
	}
	if err != nil {
		return fmt.Errorf("%s: %w", target, bare(err))
	}
	return c.sides(ctx, e, c.From, target, func() error { return e.tree(ctx, !target.inside()) })
}

func (c *Copy) file(ctx context.Context, e *engine, is entry, target Place) error {
	if at, err := c.stat(ctx, target); err == nil && at.kind == directory {
		if c.To.inside() {
			return fmt.Errorf("%s: %w", target, syscall.EISDIR)
		}
		// A file cannot take a directory's place, so into it is what is meant; again the next time.
		target.Path = Place{Path: target.Path + "/"}.target(c.From)
	}
	from, to := c.From, target
	var base string
	if from.App == "" { // its own link is followed, also out of its directory
		path, err := filepath.EvalSymlinks(from.Path)
		if err != nil {
			return err
		}
		from.Path = path
	}
	from.Path, base = split(from.Path)
	to.Path, is.name = split(target.Path)
	if at, err := c.stat(ctx, to); err != nil || at.kind != directory {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return fmt.Errorf("%s: %w", to, bare(err))
	}
	return c.sides(ctx, e, from, to, func() error { return e.one(ctx, is, base) })
}

// sides opens both ends for the time of work.
func (c *Copy) sides(ctx context.Context, e *engine, from, to Place, work func() error) error {
	var err error
	for _, s := range []struct {
		place Place
		side  *side
	}{{from, &e.from}, {to, &e.to}} {
		if s.place.App != "" {
			*s.side = c.there(s.place.Path, e.tag)
			continue
		}
		root, openErr := os.OpenRoot(s.place.Path)
		if err = openErr; err != nil {
			return err
		}
		defer root.Close()
		*s.side = &here{root: root, tag: e.tag}
	}
	err = work()
	var disk syscall.Errno
	if err != nil && (ctx.Err() != nil || errors.As(err, &disk) || e.report.Bytes > 0) {
		return fmt.Errorf("%w; %w", err, ErrAgain)
	}
	return err
}

func (c *Copy) there(dir, tag string) *there {
	return &there{box: c.Machine.In(dir), ran: c.Forget, tag: tag}
}

// stat follows links.
func (c *Copy) stat(ctx context.Context, p Place) (entry, error) {
	if p.App == "" {
		info, err := os.Stat(p.Path)
		if err != nil {
			return entry{}, err
		}
		return entry{kind: kindOf(info.Mode()), size: info.Size(), mode: info.Mode().Perm(), modified: second(info.ModTime())}, nil
	}
	info, err := c.Machine.Stat(ctx, p.Path)
	if err != nil {
		return entry{}, err
	}
	if info.Mode.Type() == fs.ModeSymlink {
		return entry{}, fs.ErrNotExist // a link that leads nowhere
	}
	return entry{kind: kindOf(info.Mode), size: info.Size, mode: info.Mode.Perm(), modified: second(info.Modified)}, nil
}

func (c *Copy) mkdir(ctx context.Context, p Place) error {
	if p.App == "" {
		return os.Mkdir(p.Path, 0o755)
	}
	return c.Machine.Mkdir(ctx, p.Path, sandbox.MkdirOptions{})
}
