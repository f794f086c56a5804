package local

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// defaultPath is where programs are searched, as on a machine.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// order is all that a process is made of.
type order struct {
	argv, env []string
	dir       string
	stdin     []byte
	feed      bool // stdin is fed: by content, or by Write
	eof       bool // nothing comes after content
	merge     bool
	terminal  *sandbox.Size
}

func (s *Sandbox) order(spec sandbox.Command) order {
	dir := s.dir
	if spec.Dir != "" {
		dir = s.In(spec.Dir).Dir()
	}
	return order{
		argv: spec.Argv, env: s.environment(spec), dir: dir, stdin: spec.Stdin,
		feed: spec.Interactive || spec.Stdin != nil, eof: !spec.Interactive, merge: spec.MergeStderr, terminal: spec.Terminal,
	}
}

// environment is built from nothing: what this process was started with never reaches a command.
func (s *Sandbox) environment(spec sandbox.Command) []string {
	base := []string{
		"PATH=" + defaultPath, "HOME=" + s.workspace, "USER=" + s.user.Username, "LANG=C.UTF-8", "WORKSPACE=" + s.workspace,
	}
	if spec.Terminal != nil {
		base = append(base, "TERM=xterm-256color")
	}
	given := slices.Concat(spec.Env, spec.SecretEnv)
	base = slices.DeleteFunc(base, func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, name+"=") })
	})
	return append(base, given...)
}

// failure is why there is no process, as a shell would count it. Its text names the step, never argument,
// environment or directory: it is shown and logged.
type failure struct {
	code int
	text string
}

// fork makes the process and the pumps of its output.
func (c *command) fork(o order) (*os.Process, *failure) {
	if f := checkDir(o.dir); f != nil {
		return nil, f
	}
	program, f := lookup(o)
	if f != nil {
		return nil, f
	}
	childs, err := c.streams(o)
	defer func() {
		for _, f := range childs {
			f.Close()
		}
	}()
	if err != nil {
		return nil, &failure{125, "no pipe or terminal can be made: " + number(err).Error()}
	}
	attr := &os.ProcAttr{Dir: o.dir, Env: o.env, Files: childs, Sys: &syscall.SysProcAttr{Setsid: true}}
	if o.terminal != nil {
		attr.Sys.Setctty = true
	}
	process, err := start(program, o.argv, attr)
	if err != nil {
		return nil, startFailure(err)
	}
	return process, nil
}

// start tries again while the program is open for writing: a process forked by somebody else in the very
// moment that a file was written still holds it, until it has become its own program (golang/go#22315).
func start(program string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	for wait := time.Millisecond; ; wait *= 2 {
		process, err := os.StartProcess(program, argv, attr)
		if !errors.Is(err, syscall.ETXTBSY) || wait > 200*time.Millisecond {
			return process, err
		}
		time.Sleep(wait)
	}
}

func checkDir(dir string) *failure {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &failure{125, "the working directory does not exist"}
	case err != nil:
		return &failure{125, "the working directory cannot be used: " + number(err).Error()}
	case !info.IsDir():
		return &failure{125, "the working directory is not a directory"}
	case unix.Access(dir, unix.X_OK) != nil:
		return &failure{125, "the working directory may not be entered"}
	}
	return nil
}

// lookup finds a program as execvp does: a name with a slash is a path from the working directory, another is
// searched in the child's own PATH.
func lookup(o order) (string, *failure) {
	name := o.argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, line := range o.env {
		if value, ok := strings.CutPrefix(line, "PATH="); ok {
			path = value
		}
	}
	found := false
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(cmp.Or(dir, "."), name)
		if !filepath.IsAbs(candidate) {
			candidate = filepath.Join(o.dir, candidate)
		}
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Access(candidate, unix.X_OK) == nil {
			return candidate, nil
		}
		found = true
	}
	if found {
		return "", &failure{126, "the program is not executable"}
	}
	return "", &failure{127, "the program was not found in PATH"}
}

func startFailure(err error) *failure {
	switch n := number(err); n {
	case syscall.ENOENT, syscall.ENOTDIR:
		return &failure{127, "the program, or the interpreter it names, does not exist"}
	case syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR, syscall.ETXTBSY, syscall.ELOOP, syscall.EPERM, syscall.EINVAL:
		return &failure{126, "the program cannot be executed: " + n.Error()}
	case syscall.E2BIG:
		return &failure{126, "the arguments and environment are too long for the kernel; send content on stdin"}
	default:
		return &failure{125, "no process can be made: " + n.Error()}
	}
}

// streams opens both sides of the standard streams. It returns the child's, which are closed after the fork.
func (c *command) streams(o order) (childs []*os.File, err error) {
	if o.terminal != nil {
		return c.openTerminal(o)
	}
	childs = make([]*os.File, 0, 3)
	if o.feed {
		r, w, err := os.Pipe()
		if err != nil {
			return childs, err
		}
		childs = append(childs, r)
		c.stdin = newStdin(w, o.stdin, o.eof)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return childs, err
		}
		childs = append(childs, null)
	}
	for _, t := range []*tape{c.out, c.err} {
		if t == c.err && o.merge {
			return append(childs, childs[1]), nil
		}
		r, w, err := os.Pipe()
		if err != nil {
			return childs, err
		}
		childs = append(childs, w)
		c.pumps = append(c.pumps, newPump(r, t, &c.bell, c.log))
	}
	return childs, nil
}

func (c *command) openTerminal(o order) ([]*os.File, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	c.pumps = append(c.pumps, newPump(master, c.out, &c.bell, c.log))
	if o.feed {
		c.stdin = newTyped(master, o.stdin, o.eof)
	}
	childs := []*os.File{slave, slave, slave}
	return childs, pty.Setsize(master, windowOf(*o.terminal))
}

func windowOf(s sandbox.Size) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(s.Cols), Rows: uint16(s.Rows)}
}
